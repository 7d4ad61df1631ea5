"""Keys: hashed at rest, effective within seconds, revoked for good."""

from __future__ import annotations

import json
import stat

import pytest
from click.testing import CliRunner

from gateway.cli_keys import keys as keys_command
from gateway.errors import StartError
from gateway.guard.key_store import FRESH_S, FileKeys, KeyRing, RedisKeys, Unavailable, open_keys
from gateway.guard.keys import decode_key, hash_of, make_key, secret_in


@pytest.fixture(params=["file", "redis"])
def store(request, tmp_path):
    if request.param == "file":
        return FileKeys(tmp_path / "folder" / "keys.json")
    return RedisKeys(request.getfixturevalue("redis_url"))


def test_a_key_is_stored_as_its_digest_alone(store, tmp_path):
    secret, record = make_key("ci", "team-a", requests_per_minute=5)
    store.add(record)
    assert store.all() == [record]
    assert record.hashed == hash_of(secret)
    if isinstance(store, FileKeys):
        assert secret not in store.path.read_text()
        assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
        assert [path.name for path in store.path.parent.iterdir() if path.name.startswith(".keys-")] == []
    store.revoke(record.hashed)
    assert store.all() == []


@pytest.mark.parametrize("text", ["{", "[]", '{"keys": 1}', '{"keys": [{"name": "x"}]}', '{"keys": ["x"]}'])
def test_a_file_that_holds_no_keys_is_not_overwritten(tmp_path, text):
    store = FileKeys(tmp_path / "keys.json")
    store.path.write_text(text)
    with pytest.raises(StartError, match="keys"):
        store.add(make_key("a", "a")[1])
    assert store.path.read_text() == text


def test_redis_needs_an_address_and_an_answer():
    with pytest.raises(StartError, match="--redis"):
        open_keys("redis", None)
    with pytest.raises(StartError, match="can't reach"):
        open_keys("redis", "redis://127.0.0.1:1/0").all()


@pytest.mark.parametrize(
    ("headers", "secret"),
    [
        ({"authorization": "Bearer k1"}, "k1"),
        ({"authorization": "bearer  k1 "}, "k1"),
        ({"x-api-key": "k2"}, "k2"),
        ({"authorization": "Basic k1", "x-api-key": "k2"}, "k2"),
        ({"api-key": "k3"}, "k3"),
        ({"authorization": "Bearer "}, None),
        ({}, None),
    ],
)
def test_where_a_key_is_looked_for(headers, secret):
    assert secret_in(headers) == secret


@pytest.mark.parametrize("odd", [b"", b"x", b"[]", b'{"name": 1}', None, 3, {"name": "a", "tenant": "b"}])
def test_what_is_no_key(odd):
    assert decode_key(odd) is None


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.mark.anyio
async def test_a_ring_sees_changes_and_survives_the_loss_of_its_store(tmp_path):
    store, clock = FileKeys(tmp_path / "keys.json"), Clock()
    ring = KeyRing(store, clock)
    _, first = make_key("a", "t")
    store.add(first)
    assert await ring.find(first.hashed) == first
    _, second = make_key("b", "t")
    store.add(second)
    assert await ring.find(second.hashed) is None  # known within FRESH_S
    clock.now += FRESH_S
    assert await ring.find(second.hashed) == second
    store.path.write_text("{")
    clock.now += FRESH_S
    assert await ring.find(first.hashed) == first
    fresh = KeyRing(store, clock)
    with pytest.raises(Unavailable):
        await fresh.find(first.hashed)


def test_the_command(tmp_path):
    where = ["--store", str(tmp_path / "keys.json")]
    run = CliRunner().invoke
    added = run(keys_command, [*where, "add", "ci", "--requests-per-minute", "9"])
    secret = added.output.strip()
    assert (added.exit_code, secret.startswith("sk-sapwood-")) == (0, True)
    again = run(keys_command, [*where, "add", "ci"])
    assert (again.exit_code, "already" in again.output) == (2, True)
    listed = run(keys_command, [*where, "list"]).output
    assert "ci\t" in listed
    assert "9 requests/min" in listed
    assert secret not in listed
    assert run(keys_command, [*where, "revoke", "ci"]).exit_code == 0
    gone = run(keys_command, [*where, "revoke", "ci"])
    assert (gone.exit_code, "no key named ci" in gone.output) == (2, True)
    assert json.loads((tmp_path / "keys.json").read_text()) == {"keys": []}
