"""The commands as a supervisor sees them: one ready line, one error line, exit statuses."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

GATEWAY = [sys.executable, "-c", "from gateway.cli import gateway; gateway()"]
REDIS = [sys.executable, "-c", "from gateway.cli_redis import redis; redis()"]
NOWHERE = "http://127.0.0.1:1"


@contextlib.contextmanager
def running(*command):
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_ready_line_and_clean_exit(number):
    with running(*GATEWAY, "--upstream", NOWHERE, "--redis", "redis://127.0.0.1:1/0", "--port", "0") as process:
        line = process.stdout.readline()
        assert line.startswith("sapwood gateway ready at http://127.0.0.1:")
        with urllib.request.urlopen(line.split()[-1] + "/health", timeout=5) as answer:
            assert answer.status == 200
        start = time.monotonic()
        process.send_signal(number)
        out, err = process.communicate(timeout=10)
        assert time.monotonic() - start < 3
        assert (process.returncode, out) == (0, "")
        assert "going on with local bindings" in err
        assert "Traceback" not in err


def test_exit_is_prompt_with_an_open_stream():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        upstream = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with running(*GATEWAY, "--upstream", upstream, "--port", "0") as process:
            port = int(process.stdout.readline().rsplit(":", 1)[1])
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.sendall(b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}")
                process.send_signal(signal.SIGTERM)
                _, err = process.communicate(timeout=10)
                assert b"503 Service Unavailable" in client.recv(4096)
            assert process.returncode == 0
            assert "Traceback" not in err


def test_redis_command():
    import redis

    with running(*REDIS) as process:
        line = process.stdout.readline()
        assert line.startswith("sapwood redis ready at redis://127.0.0.1:")
        with redis.Redis.from_url(line.split()[-1]) as client:
            assert client.ping()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 0


def test_a_taken_port_is_one_line():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = subprocess.run(
            [*GATEWAY, "--upstream", NOWHERE, "--port", str(port)], capture_output=True, text=True, timeout=30
        )
    assert result.returncode == 2
    assert result.stderr == f"Error: can't listen on 127.0.0.1:{port}: Address already in use\n"


@pytest.mark.parametrize(
    "options",
    [
        ["--upstream", "ftp://x"],
        ["--upstream", "localhost:80"],
        ["--upstream", "http://x:port"],
        ["--upstream", NOWHERE, "--upstream", NOWHERE + "/v1/"],
        ["--upstream", NOWHERE, "--redis", "http://x"],
        ["--upstream", NOWHERE, "--port", "70000"],
        ["--upstream", NOWHERE, "--host", "no.such.host.invalid"],
    ],
)
def test_bad_options_are_one_line(options):
    result = subprocess.run([*GATEWAY, *options], capture_output=True, text=True, timeout=30)
    assert result.returncode == 2
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


@pytest.mark.parametrize("module", ["gateway.cli", "gateway.cli_redis"])
def test_commands_import_nothing_heavy(module):
    code = f"import {module}, sys; print({{'redis', 'uvicorn', 'httpx', 'pydantic', 'starlette'}} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert result.stdout == "set()\n"
