"""`sapwood why` against a running gateway, and against what is none."""

from __future__ import annotations

import asyncio

import pytest
from click.testing import CliRunner

from gateway.cli_why import why

pytestmark = pytest.mark.anyio

HEAD = "You are a careful engineer. " * 50


async def run(*arguments):
    return await asyncio.to_thread(CliRunner().invoke, why, arguments)


async def ask(front, day, key="a"):
    messages = [{"role": "system", "content": f"{HEAD}Today is 2026-12-0{day}."}, {"role": "user", "content": "q"}]
    return await front.chat(messages, {"x-session-id": "s", "authorization": f"Bearer {key}"})


async def test_the_newest_a_named_one_and_the_newest_break(engine, gateway):
    front = await gateway(await engine(), excerpts=True)
    here = ("--gateway", front.url, "--key", "a")
    first = await ask(front, 1)
    await ask(front, 2)
    broken = await run(*here, "--broken")
    assert broken.exit_code == 0
    assert "BREAK     timestamp: messages[0].content (system), byte 1418" in broken.output
    assert "before    " in broken.output
    assert (await run(*here)).output == (await run(*here, "--last")).output == broken.output
    named = await run(*here, first.headers["x-sapwood-request"])
    assert "turn      first" in named.output
    assert "BREAK" not in named.output
    assert (await run("--gateway", f"{front.url}/v1/", "--key", "a")).output == broken.output


async def test_what_it_says_when_there_is_nothing(engine, gateway):
    front = await gateway(await engine())
    await ask(front, 1)
    for arguments, words in (
        (["--key", "b"], "knows no request of this key yet"),
        (["--key", "a", "--broken"], "knows no request with a broken prefix of this key yet"),
        (["--key", "a", "req/../x"], "No request 'req/../x' is known"),
        (["x", "--last"], "give a REQUEST"),
    ):
        result = await run("--gateway", front.url, *arguments)
        assert result.exit_code == 2
        assert words in result.output, result.output


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "nonsense", "http://[", "ftp://127.0.0.1"])
async def test_nothing_answers(url):
    result = await run("--gateway", url)
    assert result.exit_code == 2
    assert "no answer from the gateway" in result.output
    assert len(result.output.splitlines()) == 1


async def test_another_server(engine):
    upstream = await engine()
    result = await run("--gateway", upstream.url)
    assert (result.exit_code, result.output) == (2, f"Error: {upstream.url} is no Sapwood gateway\n")
