"""`fetch` as a process, with a hub that is a small server on loopback."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILES = {
    "config.json": b"{}",
    "model.safetensors": b"weights" * 100,
    "consolidated.safetensors": b"again" * 100,
    "model-q4.gguf": b"GGUF" * 100,
    "README.md": b"# hello",
    "chat_template.jinja": b"{{ messages }}",
}


class HubHandler(BaseHTTPRequestHandler):
    """The three requests of the hub's client: the model, its tree, its files."""

    def do_GET(self):
        self.server.seen.append(self.path)
        path = self.path.partition("?")[0]
        if path.startswith("/api/models/owner/tiny/tree/"):
            self.reply(json.dumps([entry(name) for name in self.server.files]).encode())
        elif path.startswith("/api/models/owner/tiny"):
            names = [{"rfilename": name} for name in self.server.files]
            self.reply(json.dumps({"id": "owner/tiny", "sha": COMMIT, "siblings": names}).encode())
        elif path.startswith("/owner/tiny/resolve/"):
            self.reply(self.server.files[path.split("/", 5)[5]])
        else:
            self.send_error(404)

    do_HEAD = do_GET

    def reply(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/json")
        self.send_header("ETag", f'"{hashlib.sha1(body).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *arguments):
        pass


def entry(name):
    return {"type": "file", "path": name, "size": len(FILES[name]), "oid": hashlib.sha1(FILES[name]).hexdigest()}


@pytest.fixture
def hub():
    server = ThreadingHTTPServer(("127.0.0.1", 0), HubHandler)
    server.files, server.seen = dict(FILES), []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def fetch(tmp_path, monkeypatch):
    """Runs the command with its own home; `port` is the hub's."""
    monkeypatch.setenv("SAPWOOD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)

    def run(name, port=9):
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{port}")
        command = [sys.executable, "-c", "from engine.cli_fetch import fetch; fetch(prog_name='fetch')", name]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    return run


def test_a_hub_model_is_fetched_once_and_without_second_copies(hub, fetch, tmp_path):
    folder = tmp_path / "home/models/owner--tiny"
    result = fetch("owner/tiny", hub.server_port)
    assert (result.returncode, result.stdout) == (0, f"{folder}\n"), result.stderr
    found = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    assert found == {"config.json", "model.safetensors", "chat_template.jinja"}
    assert (folder / "model.safetensors").read_bytes() == FILES["model.safetensors"]
    hub.seen.clear()
    assert fetch("owner/tiny", hub.server_port).returncode == 0
    assert hub.seen == []


def test_gguf_files_are_fetched_where_there_are_no_safetensors(hub, fetch, tmp_path):
    del hub.files["model.safetensors"], hub.files["consolidated.safetensors"]
    assert fetch("owner/tiny", hub.server_port).returncode == 0
    assert (tmp_path / "home/models/owner--tiny/model-q4.gguf").read_bytes() == FILES["model-q4.gguf"]


def fails_in_one_line(result):
    return result.returncode == 2 and result.stdout == "" and len(result.stderr.splitlines()) == 1


def test_a_model_that_the_hub_does_not_have(hub, fetch):
    result = fetch("owner/none", hub.server_port)
    assert fails_in_one_line(result), result.stderr
    assert "can't fetch owner/none" in result.stderr


def test_a_model_without_weights(hub, fetch):
    hub.files = {"README.md": FILES["README.md"]}
    result = fetch("owner/tiny", hub.server_port)
    assert fails_in_one_line(result), result.stderr
    assert "neither safetensors nor GGUF" in result.stderr


def test_a_hub_that_does_not_answer(hub, fetch, tmp_path):
    port = hub.server_port
    hub.shutdown()
    hub.server_close()
    for _ in "ab":  # also when the folder of the first try is there
        result = fetch("owner/tiny", port)
        assert fails_in_one_line(result), result.stderr
        assert "can't fetch owner/tiny from the Hugging Face hub" in result.stderr


def test_an_unknown_name(fetch):
    result = fetch("missing")
    assert fails_in_one_line(result), result.stderr
    assert result.stderr.startswith("sapwood fetch: no model named 'missing': give one of smollm2")


def test_a_folder_is_printed(fetch, tmp_path):
    result = fetch(str(tmp_path))
    assert (result.returncode, result.stdout, result.stderr) == (0, f"{tmp_path}\n", "")


def test_the_command_is_imported_without_torch():
    script = "import sys, engine.cli_fetch, engine.weights.source; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
