"""`sapwood up`: the whole stack on one machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time

import click

from agents.stack import SAPWOOD, Stack, StackError


@click.command(name="up")
@click.option("--model", default="smollm2", show_default=True, help="Known name, hub id, folder or .gguf file.")
@click.option("--replicas", type=click.IntRange(1, 64), default=1, show_default=True, help="Engines to start.")
@click.option("--redis", "redis_url", envvar="SAPWOOD_REDIS", help="URL of a Redis; by default one is started.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where the gateway listens.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0 lets the system pick.")
@click.option("--dtype", default="auto", show_default=True, help="Passed to the engines.")
@click.option("--kv-tokens", type=click.IntRange(64), help="KV capacity of each engine in tokens.")
def up(
    model: str,
    replicas: int,
    redis_url: str | None,
    host: str,
    port: int,
    dtype: str,
    kv_tokens: int | None,
) -> None:
    """Start Redis, engines and the gateway, and print what to paste into a client."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupted)
    engine = ["engine", "--model", model, "--port", "0", "--dtype", dtype]
    engine += ["--kv-tokens", str(kv_tokens)] if kv_tokens else []
    threads = str(max(1, (os.cpu_count() or 1) // replicas))
    try:
        with Stack() as stack:
            began = time.monotonic()
            _check_port(host, port)
            _fetch(model)
            url = redis_url or _start_redis(stack)
            click.echo(f"starting {replicas} engine(s) with {model}", err=True)
            engines = [
                stack.start(f"engine {i + 1}", *engine, "--threads", threads, env={"OMP_NUM_THREADS": threads})
                for i in range(replicas)
            ]
            stack.wait_ready(engines)
            upstreams = [word for child in engines for word in ("--upstream", child.url)]
            gateway = stack.start("gateway", "gateway", "--redis", url, "--host", host, "--port", str(port), *upstreams)
            stack.wait_ready([gateway])
            _greet(gateway.url, model, time.monotonic() - began)
            raise StackError(stack.watch().obituary())
    except KeyboardInterrupt:
        click.echo("sapwood up: ended", err=True)
    except StackError as error:
        click.echo(f"sapwood up: {error}", err=True)
        sys.exit(2)


def _check_port(host: str, port: int) -> None:
    """The gateway starts last: a port that is taken should not be found out after the engines have loaded."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise StackError(f"can't listen on {host}:{port}: {error.strerror}; choose another --port") from None


def _start_redis(stack: Stack) -> str:
    redis = stack.start("redis", "redis")
    stack.wait_ready([redis])
    return redis.url


def _fetch(model: str) -> None:
    """Once, here, with its progress shown, rather than in each engine."""
    if subprocess.run([*SAPWOOD, "fetch", model], stdout=subprocess.DEVNULL, check=False).returncode != 0:
        raise StackError(f"no model {model!r}")


def _greet(url: str, model: str, seconds: float) -> None:
    click.echo(f"sapwood up ready at {url} after {seconds:.1f} s\n")
    click.echo(f"  export OPENAI_BASE_URL={url}/v1")
    click.echo("  export OPENAI_API_KEY=unused")
    click.echo(f"  export OPENAI_MODEL={model}\n")
    click.echo(f'  sapwood code --base-url {url}/v1 -p "make the tests pass"\n')
    click.echo("Ctrl-C ends everything.")
    sys.stdout.flush()


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt
