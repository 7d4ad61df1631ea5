"""`sapwood engine`: serve one model."""

from __future__ import annotations

import sys

import click


@click.command(name="engine")
@click.option("--model", default="smollm2", show_default=True, help="Known name, hub id, folder or .gguf file.")
@click.option("--served-name", help="The model's name in the API; by default taken from the model.")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8100, show_default=True, help="0 lets the system pick one.")
@click.option("--dtype", type=click.Choice(["auto", "float32", "bfloat16"]), default="auto", show_default=True)
@click.option(
    "--quant",
    type=click.Choice(["auto", "none"]),
    default="auto",
    show_default=True,
    help="Whether 4-bit weights are multiplied as stored where that is faster.",
)
@click.option(
    "--kernels",
    type=click.Choice(["auto", "native", "torch"]),
    default="auto",
    show_default=True,
    help="Attention by C kernels compiled for this machine, or by torch's operators.",
)
@click.option("--threads", type=click.IntRange(1), help="Threads of the tensor library.")
@click.option("--max-context", type=click.IntRange(16), help="Tokens a request may have in all.")
@click.option("--kv-tokens", type=click.IntRange(64), help="Capacity of the KV pool in tokens.")
@click.option("--page-size", type=click.IntRange(1), default=1, show_default=True)
@click.option("--step-tokens", type=click.IntRange(1), default=512, show_default=True, help="Token budget of a step.")
@click.option(
    "--step-ms",
    type=click.FloatRange(0),
    default=200.0,
    show_default=True,
    help="Time of a step that prefills next to running streams; 0: no limit.",
)
@click.option("--max-running", type=click.IntRange(1), default=64, show_default=True, help="Requests in one batch.")
@click.option(
    "--jump-forward/--no-jump-forward",
    default=True,
    show_default=True,
    help="Don't sample what a grammar leaves no choice about.",
)
@click.option("--drafts/--no-drafts", default=True, show_default=True, help="Guess repeated tokens and verify them.")
@click.option("--check-every-step", is_flag=True, help="Recompute all cache counters after each step (slow).")
def engine(**options: object) -> None:
    """Serve one model over OpenAI's API, with a radix tree of everything it has computed."""
    from engine.config import EngineConfig
    from engine.errors import StartError

    try:
        from engine.server.run import serve

        serve(EngineConfig.model_validate(options))
    except StartError as error:
        click.echo(f"sapwood engine: {error}", err=True)
        sys.exit(2)
