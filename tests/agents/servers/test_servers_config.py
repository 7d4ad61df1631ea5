"""The table of servers: what is read from it, and the one line that says what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agents.servers.config import BadServers, Http, Stdio, read_json, read_servers

BASE = Path("/base")
ENVIRON = {"TOKEN": "s3cret", "EMPTY": "", "FOLDER": "data"}


def read(**table):
    return read_servers(table, "mcpServers", ENVIRON, BASE)


def test_both_ways_and_their_expansion():
    files, web = read(
        web={"type": "http", "url": "https://x.example/${FOLDER}", "headers": {"Authorization": "Bearer ${TOKEN}"}},
        files={
            "command": "npx",
            "args": ["-y", "server", "${env:FOLDER}/in", "${MISSING:-here}", "${EMPTY:-there}", "$HOME", "${}"],
            "env": {"KEY": "${TOKEN}"},
            "cwd": "${FOLDER}",
            "autoApprove": ["x"],
            "startup_timeout_sec": 5,
            "tool_timeout_sec": 7.5,
            "required": True,
        },
    )
    assert files.name == "files"
    args = ("-y", "server", "data/in", "here", "there", "$HOME", "${}")
    assert files.way == Stdio("npx", args, {"KEY": "s3cret"}, BASE / "data")
    assert (files.start_seconds, files.call_seconds, files.required) == (5.0, 7.5, True)
    assert web.way == Http("https://x.example/data", {"Authorization": "Bearer s3cret"})
    assert "s3cret" not in repr([files, web])


def test_a_disabled_server_is_left_out_before_its_variables_are_asked_for():
    assert read(a={"command": "${NOWHERE}", "disabled": True}, b={"command": "x", "enabled": False}) == []


def test_a_place_to_print_has_no_secrets():
    assert Http("https://me:pw@x.example:8/mcp?key=1").place == "https://x.example:8/mcp"


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ("npx", 'mcpServers.s must be a table with "command" or "url"'),
        ({}, 'mcpServers.s has neither of "command" and "url": give one'),
        ({"command": "x", "url": "http://x"}, 'mcpServers.s has both of "command" and "url": give one'),
        ({"comand": "x"}, "mcpServers.s.comand is unknown: is command meant?"),
        ({"command": "x", "Args": []}, "mcpServers.s.Args is unknown: is args meant?"),
        ({"command": " "}, "mcpServers.s.command is empty"),
        ({"command": ["x"]}, 'mcpServers.s.command must be a string, not ["x"]'),
        ({"command": "x", "args": "-y"}, "mcpServers.s.args must be a list of strings"),
        ({"command": "x", "args": ["a", 1]}, "mcpServers.s.args[1] must be a string, not 1"),
        ({"command": "x", "args": ["a\0b"]}, "mcpServers.s.args[0] has a zero character in it"),
        ({"command": "x", "env": ["A=b"]}, "mcpServers.s.env must be a table of strings"),
        ({"command": "x", "env": {"A": 1}}, "mcpServers.s.env.A must be a string, not 1"),
        (
            {"command": "x", "env": {"A": "${NOPE}"}},
            "mcpServers.s.env.A: $NOPE is not set; set it or write ${NOPE:-default}",
        ),
        ({"url": "ftp://x"}, "mcpServers.s.url is not an http:// or https:// URL"),
        ({"url": "http://x:99999/"}, "mcpServers.s.url is not an http:// or https:// URL"),
        ({"url": "http://x", "headers": {"A b": "c"}}, "mcpServers.s.headers: 'A b' is not the name of a header"),
        (
            {"url": "http://x", "headers": {"A": "b\nc"}},
            "mcpServers.s.headers.A has characters that no header can hold",
        ),
        (
            {"url": "http://x", "type": "sse"},
            "mcpServers.s.type is sse, which is not spoken here: give its streamable HTTP URL",
        ),
        (
            {"command": "x", "type": "http"},
            'mcpServers.s.type is \'http\': it must be "stdio" for a "command", or be left out',
        ),
        ({"command": "x", "disabled": "no"}, "mcpServers.s.disabled must be true or false"),
        ({"command": "x", "tool_timeout_sec": 0}, "mcpServers.s.tool_timeout_sec must be a number of seconds above 0"),
    ],
)
def test_complaints(entry, complaint):
    with pytest.raises(BadServers) as raised:
        read(s=entry)
    assert str(raised.value) == complaint


def test_files():
    text = json.dumps({"mcpServers": {"a": {"command": "x", "type": "stdio"}}})
    assert [server.name for server in read_json(text, "f.json", {}, BASE)] == ["a"]
    for bad, complaint in (
        ("{", "f.json is not JSON: "),
        ("[]", 'f.json has no "mcpServers" table'),
        ('{"mcpServers": []}', "f.json: mcpServers must be a table of servers"),
        ('{"mcpServers": {"": {}}}', "f.json: mcpServers: a server needs a name"),
    ):
        with pytest.raises(BadServers) as raised:
            read_json(bad, "f.json", {}, BASE)
        assert str(raised.value).startswith(complaint)
        assert "\n" not in str(raised.value)
