"""`sapwood why`."""

from __future__ import annotations

from typing import Any

import click

from gateway.cli import CommandFailed

DEFAULT_URL = "http://127.0.0.1:8080"
TIMEOUT_S = 10.0


@click.command("why")
@click.argument("request_id", required=False, metavar="[REQUEST]")
@click.option("--last", is_flag=True, help="The newest request; the default.")
@click.option("--broken", is_flag=True, help="The newest request whose prefix broke.")
@click.option("--gateway", "url", envvar="SAPWOOD_GATEWAY", default=DEFAULT_URL, show_default=True, metavar="URL")
@click.option("--key", envvar="SAPWOOD_API_KEY", metavar="KEY", help="The API key that the request was sent with.")
def why(request_id: str | None, last: bool, broken: bool, url: str, key: str | None) -> None:
    """Say what of a request's prompt was reused, why it went to its replica, and what broke its prefix.

    REQUEST is the value of the answer's header x-sapwood-request.
    """
    from gateway.observe.why import render

    if request_id and (last or broken):
        raise click.UsageError("give a REQUEST, or --last, or --broken")
    click.echo(render(_fetch(url, key, request_id, broken)))


def _fetch(url: str, key: str | None, request_id: str | None, broken: bool) -> dict[str, Any]:
    if request_id:
        return _get(url, key, f"/requests/{_quoted(request_id)}")
    found = _get(url, key, "/requests?limit=1" + ("&broken=1" if broken else ""))["requests"]
    if not found:
        what = "request with a broken prefix" if broken else "request"
        raise CommandFailed(f"{url} knows no {what} of this key yet")
    request: dict[str, Any] = found[0]
    return request


def _get(url: str, key: str | None, path: str) -> dict[str, Any]:
    """The gateway's answer, or one line that says why there is none."""
    import httpx

    headers = {"authorization": f"Bearer {key}"} if key else {}
    base = url.rstrip("/").removesuffix("/v1")
    try:
        answer = httpx.get(base + path, headers=headers, timeout=TIMEOUT_S, trust_env=False)
        body = answer.json()
        if answer.status_code != 200:
            raise CommandFailed(str(body["error"]["message"]))
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeEncodeError) as error:
        raise CommandFailed(f"no answer from the gateway {url}: {error}") from None
    except (ValueError, KeyError, TypeError):
        raise CommandFailed(f"{url} is no Sapwood gateway") from None
    if not isinstance(body, dict) or not body.keys() & {"id", "requests"}:
        raise CommandFailed(f"{url} is no Sapwood gateway")
    return body


def _quoted(name: str) -> str:
    from urllib.parse import quote

    return quote(name, safe="")
