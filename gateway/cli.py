"""`sapwood gateway`."""

from __future__ import annotations

import click

LOG_LEVELS = ("debug", "info", "warning", "error")


class CommandFailed(click.ClickException):
    """One line on stderr, exit status 2."""

    exit_code = 2


@click.command("gateway")
@click.option("--upstream", "upstreams", multiple=True, required=True, metavar="URL", help="An engine; repeat it.")
@click.option("--redis", "redis_url", metavar="URL", help="Where gateways share bindings (Redis or Valkey).")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8080, show_default=True, help="0 lets the system choose.")
@click.option("--binding-ttl", default=3600.0, show_default=True, help="Seconds that a binding lasts unused.")
@click.option("--prefill-rate", default=2000.0, show_default=True, help="Tokens per second, for placement.")
@click.option("--max-body", default=32 * 2**20, show_default=True, help="Bytes.")
@click.option(
    "--tenant-secret",
    envvar="SAPWOOD_TENANT_SECRET",
    default="sapwood",
    help="Scopes bindings by tenant; the same on all gateways. Better set by SAPWOOD_TENANT_SECRET.",
)
@click.option("--keys", metavar="PATH|redis", help="Ask for API keys: see `sapwood keys`.")
@click.option("--log-level", type=click.Choice(LOG_LEVELS), default="warning", show_default=True)
def gateway(
    upstreams: tuple[str, ...],
    redis_url: str | None,
    host: str,
    port: int,
    binding_ttl: float,
    prefill_rate: float,
    max_body: int,
    tenant_secret: str,
    keys: str | None,
    log_level: str,
) -> None:
    """Relay OpenAI requests to the replica that holds their prefix."""
    from pydantic import SecretStr, ValidationError

    from gateway.config import GatewayConfig
    from gateway.errors import StartError
    from gateway.serve import serve

    try:
        config = GatewayConfig(
            upstreams=upstreams,
            redis_url=redis_url,
            host=host,
            port=port,
            binding_ttl_s=binding_ttl,
            prefill_tokens_per_s=prefill_rate,
            max_body_bytes=max_body,
            tenant_secret=SecretStr(tenant_secret),
            keys=keys,
        )
        serve(config, log_level)
    except ValidationError as error:
        raise CommandFailed(_one_line(error.errors()[0])) from None
    except StartError as error:
        raise CommandFailed(str(error)) from None


def _one_line(fault: object) -> str:
    """pydantic's first complaint, as `field: message`."""
    assert isinstance(fault, dict)
    where = ".".join(str(part) for part in fault["loc"])
    return f"{where}: {str(fault['msg']).removeprefix('Value error, ')}"
