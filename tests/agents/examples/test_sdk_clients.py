"""The SDK examples against a real gateway, in front of an upstream that speaks chat completions only."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from anthropic import Anthropic
from openai import OpenAI

from tests.agents.front import gateway_before

SDK = Path(__file__).resolve().parents[3] / "examples" / "sdk"
QUESTION = "How many words has: the wood carries water?"


def load(name):
    spec = importlib.util.spec_from_file_location(name, SDK / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def front(upstream):
    with gateway_before(upstream.url) as gateway:
        yield gateway


def script(upstream):
    upstream.turns = [upstream.use("count_words", text="the wood carries water"), upstream.say("It has four.")]


def check(upstream, front, answer, capsys):
    assert answer == "It has four."
    first, second = upstream.bodies
    assert second["messages"][: len(first["messages"])] == first["messages"]
    assert second["tools"] == first["tools"]
    assert second["messages"][-1] == {"role": "tool", "tool_call_id": "c", "content": "4"}
    assert capsys.readouterr().err == "\n[turn 1: prompt 100, cached 90]\n\n[turn 2: prompt 100, cached 90]\n"
    assert front.count("prefix_breaks") == 0
    assert front.count("requests", status="200") == 2


def test_openai(upstream, front, capsys):
    script(upstream)
    with OpenAI(base_url=front.url, api_key="unused", max_retries=0) as client:
        check(upstream, front, load("openai_client").ask(client, QUESTION), capsys)


def test_anthropic(upstream, front, capsys):
    script(upstream)
    with Anthropic(base_url=front.root, api_key="unused", max_retries=0) as client:
        check(upstream, front, load("anthropic_client").ask(client, QUESTION), capsys)


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_arguments_that_make_no_sense_are_told_to_the_model(name):
    module = load(f"{name}_client")
    assert "text" in module.count_words({"text": 7} if name == "anthropic" else "{}")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_as_programs(name, upstream, front):
    script(upstream)
    place = {"OPENAI_BASE_URL": front.url, "ANTHROPIC_BASE_URL": front.root}
    keys = {"OPENAI_API_KEY": "unused", "ANTHROPIC_API_KEY": "unused"}
    done = subprocess.run(
        [sys.executable, SDK / f"{name}_client.py", QUESTION],
        env={**os.environ, **place, **keys},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "It has four." in done.stdout
