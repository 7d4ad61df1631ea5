"""A server without the library, which starts fast and misbehaves as it is told: `plain_server.py [KEY=VALUE ...]`.

It speaks the handshake of old only.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

FIRST: list[str] = []
"""The methods that were asked for, in their order."""
SET = dict(word.split("=", 1) for word in sys.argv[1:])


def send(**message: object) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def tools() -> list[dict[str, object]]:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    names = ["echo", "die", "hang", "garble", "long", "deaf", *SET.get("tools", "").split()]
    if "lives" in SET:  # each life offers another tool
        names.append(f"life{len(lives())}")
    return [{"name": name, "description": f"{name}s", "inputSchema": schema} for name in names if name]


def lives() -> str:
    return Path(SET["lives"]).read_text() if Path(SET["lives"]).exists() else ""


def call(number: int, name: str, arguments: dict[str, str]) -> None:
    match name:
        case "die":
            print("last words", file=sys.stderr, flush=True)
            os._exit(3)
        case "hang":
            return
        case "garble":
            print(f'{{"jsonrpc": "2.0", "id": {number}, "result": "\\ud800 {{"}}', flush=True)
            print(f'{{"jsonrpc": "2.0", "id": {number}, "result": {{"content": "\\ud800"}}}}', flush=True)
            return
        case "long":
            print("x" * int(arguments["text"]), flush=True)
            return
        case "deaf":  # a child holds the pipes open when this program is gone
            child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
            Path(SET["mark"]).write_text(str(child.pid))
            os._exit(4)
    text = json.dumps({"pid": os.getpid(), "first": FIRST[0], "cwd": os.getcwd(), "env": dict(os.environ), **arguments})
    send(id=number, result={"content": [{"type": "text", "text": text}]})


def main() -> None:
    if "lives" in SET:
        Path(SET["lives"]).write_text(lives() + "I")
    if (
        SET.get("start") == "fails"
        or ("needs" in SET and not Path(SET["needs"]).exists())
        or ("fails_from" in SET and len(lives()) >= int(SET["fails_from"]))
    ):
        sys.exit("no licence found")
    if SET.get("start") == "hangs":
        time.sleep(600)
    print("Welcome!", flush=True)
    print("a greeting", file=sys.stderr, flush=True)
    for line in sys.stdin:
        message = json.loads(line)
        FIRST.append(message["method"])
        match message["method"]:
            case "initialize":
                told = message["params"]["protocolVersion"]
                capabilities = {"tools": {"listChanged": True}}
                about = {"protocolVersion": told, "serverInfo": {"name": "plain", "version": "1"}}
                send(id=message["id"], result={**about, "capabilities": capabilities})
            case "tools/list":
                send(id=message["id"], result={"tools": tools()})
            case "tools/call":
                call(message["id"], message["params"]["name"], message["params"].get("arguments") or {})
            case "notifications/cancelled" if "mark" in SET:
                Path(SET["mark"]).write_text(json.dumps(message["params"]))
            case _ if SET.get("start") == "strict" and message["method"] == "server/discover":
                sys.exit("expected initialize")
            case _ if "id" in message:
                send(id=message["id"], error={"code": -32601, "message": "Method not found"})
    if SET.get("end") == "never":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        Path(SET["mark"]).write_text("my input was closed")
        time.sleep(600)


main()
