"""The command line as a person meets it: quick help, one-line errors, clean ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time

import httpx
import pytest

from agents.stack import SAPWOOD

COMMANDS = ("up", "code", "sessions", "eval", "engine", "gateway", "mcp", "why", "keys", "redis", "fetch", "doctor")


def sapwood(*arguments, **options):
    return subprocess.run([*SAPWOOD, *arguments], capture_output=True, text=True, timeout=60, **options)


def one_line_error(result, *words):
    assert result.returncode == 2, result
    assert "Traceback" not in result.stderr
    lines = [line for line in result.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, result.stderr
    for word in words:
        assert word in lines[0]


def test_help_lists_every_command():
    text = sapwood("--help").stdout
    assert all(re.search(rf"^  {name} ", text, re.MULTILINE) for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name):
    result = sapwood(name, "--help")
    assert result.returncode == 0
    assert result.stdout.startswith("Usage:")


def test_a_folder_of_the_same_name_is_not_taken_for_ours(tmp_path):
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "cli.py").write_text("def main():\n    raise SystemExit('theirs')\n")
    assert sapwood("--version", cwd=tmp_path).returncode == 0


def test_unknown_command():
    result = sapwood("grow")
    assert result.returncode == 2
    assert "grow" in result.stderr


def test_missing_model():
    one_line_error(sapwood("engine", "--model", "missing", "--port", "0"), "missing")


def test_truncated_gguf(tmp_path, smollm2_path):
    short = tmp_path / "short.gguf"
    with smollm2_path.open("rb") as whole:
        short.write_bytes(whole.read(3_000_000))
    one_line_error(sapwood("engine", "--model", str(short), "--port", "0"), "short.gguf")


def test_not_a_gguf(tmp_path):
    other = tmp_path / "other.gguf"
    other.write_bytes(b"hello" * 100)
    one_line_error(sapwood("engine", "--model", str(other), "--port", "0"), "other.gguf")


def test_taken_port(smollm2_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        one_line_error(sapwood("engine", "--model", str(smollm2_path), "--port", port), port, "--port")


def test_doctor_names_what_is_there():
    result = sapwood("doctor")
    assert "python" in result.stdout
    assert "Traceback" not in result.stderr


def test_up_ends_everything_it_started(smollm2_path):
    up = subprocess.Popen(
        [*SAPWOOD, "up", "--model", str(smollm2_path), "--port", "0", "--kv-tokens", "4096"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        line = up.stdout.readline()
        url = re.match(r"sapwood up ready at (\S+)", line).group(1)
        children = descendants(up.pid)
        assert len(children) >= 3
        body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
        reply = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60)
        assert reply.status_code == 200
    finally:
        up.send_signal(signal.SIGINT)
        up.communicate(timeout=20)
    assert up.returncode == 0
    deadline = time.monotonic() + 10
    while any(alive(pid) for pid in children):
        assert time.monotonic() < deadline, "a child outlived sapwood up"


def test_up_killed_takes_its_children_along(smollm2_path):
    up = subprocess.Popen(
        [*SAPWOOD, "up", "--model", str(smollm2_path), "--port", "0", "--kv-tokens", "4096"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        assert up.stdout.readline().startswith("sapwood up ready")
        children = descendants(up.pid)
    finally:
        up.kill()
        up.communicate()
    deadline = time.monotonic() + 10
    while any(alive(pid) for pid in children):
        assert time.monotonic() < deadline, "a child outlived a killed sapwood up"


def test_up_says_why_it_cannot_start(smollm2_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = sapwood("up", "--model", str(smollm2_path), "--port", str(taken.getsockname()[1]))
    assert result.returncode == 2
    assert str(taken) not in result.stderr
    assert "Address already in use; choose another --port" in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr


def descendants(pid):
    """Processes below `pid`, read from /proc."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as stat:
                    parents[int(entry)] = int(stat.read().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found, level = [], {pid}
    while level:
        level = {child for child, parent in parents.items() if parent in level}
        found += level
    return found


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
