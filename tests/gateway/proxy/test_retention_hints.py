"""A client says itself how long its conversation pauses: the hint reaches the conversation's home."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.anyio
MESSAGES = [{"role": "user", "content": "go"}]
SESSION = {"x-sapwood-session": "s"}


def asked(home):
    return [(request.path, json.loads(request.body)) for request in home.seen if request.path.startswith("/cache/")]


async def talk(engine, gateway, offers):
    home, other = await engine(offers=offers), await engine(offers=offers)
    front = await gateway(home, other)
    served = (await front.chat(MESSAGES, headers=SESSION)).headers["x-sapwood-replica"]
    return front, *((home, other) if served == home.url else (other, home))


async def test_the_home_of_a_session_hears_it(engine, gateway):
    front, home, other = await talk(engine, gateway, ["retain", "session"])
    told = await front.http.post("/cache/retain", json={"session": "s", "seconds": 42})
    assert (told.status_code, told.json()) == (200, {"outcome": "retained"})
    told = await front.http.post("/cache/release", json={"session": "s"})
    assert (told.status_code, told.json()) == (200, {"outcome": "released"})
    (kept, body), (released, named) = asked(home)
    assert (kept, body["seconds"], released) == ("/cache/retain", 42.0, "/cache/release")
    assert body["session"] == named["session"] != "s"
    assert not asked(other)


async def test_where_there_is_no_home_or_no_offer_it_says_so(engine, gateway):
    front, home, _ = await talk(engine, gateway, [])
    for session in ("s", "never heard of"):
        told = await front.http.post("/cache/retain", json={"session": session, "seconds": 42})
        assert told.json() == {"outcome": "not_offered"}
    assert not asked(home)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"session": ""},
        {"session": 1, "seconds": 2},
        {"session": "s"},
        *({"session": "s", "seconds": s} for s in (0, -1, 1e9, True, "9")),
    ],
)
async def test_bad_hints_are_refused(engine, gateway, body):
    front = await gateway(await engine())
    told = await front.http.post("/cache/retain", json=body)
    assert (told.status_code, told.json()["error"]["code"]) == (400, "invalid_value")


async def test_bodies_that_are_no_hint(engine, gateway):
    front = await gateway(await engine())
    assert (await front.http.post("/cache/retain", content=b"{")).json()["error"]["code"] == "invalid_json"
    long = b'{"session": "%s"}' % (b"x" * 20_000)
    assert (await front.http.post("/cache/retain", content=long)).status_code == 413
