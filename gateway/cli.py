"""`sapwood gateway`."""

from __future__ import annotations

from typing import Any

import click

LOG_LEVELS = ("debug", "info", "warning", "error")
FLAGS = {
    "upstreams": "--upstream",
    "redis_url": "--redis",
    "host": "--host",
    "port": "--port",
    "binding_ttl_s": "--binding-ttl",
    "prefill_tokens_per_s": "--prefill-rate",
    "max_body_bytes": "--max-body",
    "tenant_secret": "--tenant-secret",
    "keys": "--keys",
}
"""Settings that have a flag; all others are in the file or the environment."""


class CommandFailed(click.ClickException):
    """One line on stderr, exit status 2."""

    exit_code = 2


@click.command("gateway")
@click.option("--config", "file", metavar="FILE", help="Settings, pools and routes; also SAPWOOD_GATEWAY_CONFIG.")
@click.option("--check", is_flag=True, help="Print the configuration with the source of each setting, and end.")
@click.option("--upstream", "upstreams", multiple=True, metavar="URL", help="An engine; repeat it.")
@click.option("--redis", "redis_url", metavar="URL", help="Where gateways share bindings (Redis or Valkey).")
@click.option("--host", show_default="127.0.0.1")
@click.option("--port", type=int, show_default="8080", help="0 lets the system choose.")
@click.option(
    "--binding-ttl", "binding_ttl_s", type=float, show_default="3600", help="Seconds that a binding lasts unused."
)
@click.option(
    "--prefill-rate", "prefill_tokens_per_s", type=float, show_default="2000", help="Tokens per second, for placement."
)
@click.option("--max-body", "max_body_bytes", type=int, show_default="32 MiB", help="Bytes.")
@click.option(
    "--tenant-secret",
    show_default="sapwood",
    help="Scopes bindings by tenant; the same on all gateways. Better set by SAPWOOD_TENANT_SECRET.",
)
@click.option("--keys", metavar="PATH|redis", help="Ask for API keys: see `sapwood keys`.")
@click.option("--log-level", type=click.Choice(LOG_LEVELS), default="warning", show_default=True)
def gateway(file: str | None, check: bool, log_level: str, **flags: Any) -> None:
    """Relay OpenAI requests to the replica that holds their prefix.

    Flags win over the environment (SAPWOOD_GATEWAY_ and a setting's name), which wins over the file. SIGHUP reads
    them again.
    """
    from gateway.config_file import Setting, origin
    from gateway.config_show import show
    from gateway.errors import StartError
    from gateway.serve import serve

    given = {name: Setting(value, FLAGS[name]) for name, value in flags.items() if value not in (None, ())}
    try:
        source = origin(given, file)
        loaded = source.load()
        if check:
            click.echo(show(loaded), nl=False)
        else:
            serve(loaded.config, log_level, lambda: source.load().config)
    except StartError as error:
        raise CommandFailed(str(error)) from None
