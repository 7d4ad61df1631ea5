"""`sapwood redis`."""

from __future__ import annotations

import click


@click.command("redis")
def redis() -> None:
    """Run an embedded Redis (Valkey) on loopback until Ctrl-C; it keeps nothing on disk."""
    import signal
    import threading

    from gateway.affinity.embedded import embedded_redis, is_answering
    from gateway.cli import CommandFailed
    from gateway.errors import StartError

    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    try:
        with embedded_redis() as url:
            click.echo(f"sapwood redis ready at {url}")
            while not stop.wait(1.0):
                if not is_answering(url):
                    raise StartError("the embedded Redis ended by itself")
    except StartError as error:
        raise CommandFailed(str(error)) from None
