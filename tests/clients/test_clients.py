"""Real clients, each through a gateway in front of an upstream that speaks chat completions only.

    make clients

Each one gets a task that takes one tool call (or one edit, for clients without tools). A client that can't be
installed here is skipped, with the reason.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from tests.clients.known import CLIENTS, CannotInstall
from tests.clients.scripted import MARK, scripted_upstream

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1800)]
FOLDER = Path(os.environ.get("SAPWOOD_CLIENTS", "~/.cache/sapwood/clients")).expanduser()
SECONDS = 120


@pytest.fixture
def gateway():
    """A gateway's URL and the script behind it."""
    with scripted_upstream() as (script, upstream):
        command = [
            sys.executable,
            "-c",
            "from agents.cli import main; main()",
            "gateway",
            "--upstream",
            upstream,
            "--port",
            "0",
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                yield script, process.stdout.readline().split()[-1]
            finally:
                process.terminate()


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_client_does_its_task(client, gateway, tmp_path, request):
    script, url = gateway
    run, work = prepared(client, url, tmp_path, request)
    if client.before:
        first = run([word.replace("BASE", url) for word in client.before])
        assert first.returncode == 0, first.stdout + first.stderr
    done = run(client.command)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-3000:]
    assert (work / "made.txt").read_text().strip() == MARK, said[-3000:]
    assert client.says in said, said[-3000:]
    if client.with_tools:
        _extends(script.conversations)
    metrics = httpx.get(f"{url}/metrics").text
    refused = [line for line in metrics.splitlines() if "requests_total{" in line and 'status="200"' not in line]
    assert refused == []


def prepared(client, url, tmp_path, request):
    """What runs the client with some words, in the folder that is returned with it, as a user who has only it."""
    try:
        program = client.install(FOLDER)
    except CannotInstall as error:
        pytest.skip(f"{client.name} can't be installed here: {error}")
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    settings = {"HOME": str(home), "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}", "CI": "1"}
    settings |= {**client.extra, **client.configure(home, url)}
    kept = {name: value for name, value in os.environ.items() if name in ("LANG", "TERM", "TMPDIR")}
    request.addfinalizer(partial(_end_all_of, home))
    return partial(_run, program, work, {**kept, **settings}), work


def _run(program, work, settings, words):
    return subprocess.run(
        [str(program), *words],
        cwd=work,
        env=settings,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def _end_all_of(home):
    """Some clients leave a helper behind, which no process group holds: it is known by its home folder."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"HOME={home}\0".encode() in (folder / "environ").read_bytes() + b"\0":
                os.kill(int(folder.name), signal.SIGKILL)


def _extends(requests):
    """Each request of the task says what the one before said, and more: nothing of the prefix was changed."""
    assert len(requests) >= 2
    for before, after in pairwise(requests):
        assert after["tools"] == before["tools"]
        assert after["messages"][: len(before["messages"])] == before["messages"]
