"""`sapwood fetch`: brings a model onto this machine and says where it is."""

from __future__ import annotations

import sys

import click

from engine.errors import StartError


@click.command()
@click.argument("name")
@click.option("--verify", is_flag=True, help="Hash a model that was fetched before, instead of trusting its size.")
def fetch(name: str, verify: bool) -> None:
    """Fetch the model NAME once: smollm2, a Hugging Face id, or a folder or .gguf file that is here."""
    from engine.weights.source import home_folder, resolve

    try:
        click.echo(resolve(name, home_folder(), verify=verify))
    except StartError as error:
        click.echo(f"sapwood fetch: {error}", err=True)
        sys.exit(2)
