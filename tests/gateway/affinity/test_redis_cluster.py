"""Bindings over a real cluster of two nodes: each tenant's keys lie in one slot, whichever node has it."""

from __future__ import annotations

import contextlib
import socket
import subprocess

import pytest
import redis

from gateway.affinity.base import Binding
from gateway.affinity.embedded import _server_binary
from gateway.affinity.keys import KeySpace
from gateway.affinity.link import LinkState, StoreLink
from gateway.affinity.redis_store import RedisStore
from gateway.errors import StartError
from gateway.guard.key_store import open_keys
from gateway.guard.keys import make_key

pytestmark = pytest.mark.anyio
HALVES = ((0, 8191), (8192, 16383))


def free_port():
    """Below 55535, as a node's bus takes the port 10,000 above."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if port < 55_000:
            return port


@contextlib.contextmanager
def node(folder, port):
    folder.mkdir()
    options = {"bind": "127.0.0.1", "port": port, "dir": folder, "save": "", "cluster-enabled": "yes"}
    flags = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([_server_binary(), *flags], stdout=log, stderr=log)
    try:
        yield redis.Redis(port=port, socket_timeout=5)
    finally:
        process.kill()
        process.wait()


@pytest.fixture
async def cluster(tmp_path, eventually):
    ports = [free_port(), free_port()]
    with contextlib.ExitStack() as stack:
        nodes = [stack.enter_context(node(tmp_path / str(port), port)) for port in ports]
        for client, (first, last) in zip(nodes, HALVES, strict=True):
            await eventually(lambda client=client: answers(client))
            client.execute_command("CLUSTER ADDSLOTSRANGE", first, last)
        nodes[0].execute_command("CLUSTER MEET", "127.0.0.1", ports[1])
        for client in nodes:
            await eventually(lambda client=client: is_whole(client))
        yield f"redis+cluster://127.0.0.1:{ports[0]}"


def answers(client):
    with contextlib.suppress(redis.RedisError):
        return client.ping()
    return False


def is_whole(client):
    info = client.cluster("info")
    return (info["cluster_state"], info["cluster_known_nodes"]) == ("ok", "2")


async def test_tenants_on_both_nodes(cluster):
    store = RedisStore(cluster)
    spaces = [KeySpace(f"tenant-{number}") for number in range(8)]
    try:
        for space in spaces:
            keys = [space.prefix("a"), space.prefix("b"), space.session("s")]
            binding = Binding("http://r", "e", 10, "l", 1)
            await store.write(dict.fromkeys(keys, binding.encode()), 1, 60_000)
            assert await store.read([*keys, space.prefix("none")]) == [*[binding.encode()] * 3, None]
            verdict = await store.take(f"sapwood:{{{space.scope}}}:l", 1_000, 1, 1, False)
            assert verdict.allowed
    finally:
        await store.close()


async def test_keys_are_kept_there_too(cluster):
    secret, key = make_key("ann", "team", 0, 0)
    store = open_keys("redis", cluster)
    store.add(key)
    assert [each.name for each in store.all()] == ["ann"]
    assert secret not in repr(store.all())
    store.revoke(key.hashed)
    assert store.all() == []


async def test_a_cluster_that_is_not_there():
    url = "redis+cluster://127.0.0.1:1"
    link = StoreLink(RedisStore(url))
    await link.start()
    assert link.state is LinkState.DOWN
    await link.close()
    with pytest.raises(StartError, match="can't reach the keys in Redis"):
        open_keys("redis", url).all()
