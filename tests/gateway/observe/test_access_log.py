"""One line of JSON for each request, whatever its end."""

from __future__ import annotations

import json

import pytest

from gateway.errors import StartError
from gateway.observe.access_log import AccessLog
from gateway.observe.records import RequestRecord

USER = [{"role": "user", "content": "a secret question"}]


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.anyio
async def test_a_line_for_each_request(engine, gateway, eventually, tmp_path):
    path = tmp_path / "access.log"
    upstream = await engine()
    front = await gateway(upstream, access_log=str(path))
    answer = await front.chat(USER, {"authorization": "Bearer sk-very-secret"})
    await front.http.post("/v1/messages", content=b"{")
    good, bad = await eventually(lambda: (found := lines(path)) and len(found) == 2 and found)
    assert good["id"] == answer.headers["x-sapwood-request"]
    assert good["time"].endswith("+00:00")
    assert (good["route"], good["model"], good["status"]) == ("/v1/chat/completions", "m", 200)
    assert (good["replica"], good["prompt_tokens"], good["cached_tokens"]) == (upstream.url, 40, 0)
    assert (good["completion_tokens"], good["break"], good["error"]) == (2, None, None)
    assert good["total_ms"] >= good["ttft_ms"] > 0
    assert len(good["tenant"]) == 24
    assert (bad["route"], bad["status"], bad["error"], bad["tenant"]) == ("/v1/messages", 400, "invalid_json", None)
    assert "secret" not in path.read_text()


def test_a_rotated_file_is_opened_anew(tmp_path):
    path = tmp_path / "access.log"
    log = AccessLog(str(path))
    log(RequestRecord("req_1", 0.0, "/x"))
    path.rename(tmp_path / "access.log.1")
    log(RequestRecord("req_2", 0.0, "/x"))
    log.close()
    assert [line["id"] for line in lines(tmp_path / "access.log.1")] == ["req_1"]
    assert [line["id"] for line in lines(path)] == ["req_2"]


def test_stderr(capsys):
    AccessLog("-")(RequestRecord("req_1", 0.0, "/x"))
    assert json.loads(capsys.readouterr().err)["id"] == "req_1"


def test_a_file_that_can_not_be_written(tmp_path):
    with pytest.raises(StartError, match=r"can't write the access log .*: "):
        AccessLog(str(tmp_path / "no" / "folder"))
