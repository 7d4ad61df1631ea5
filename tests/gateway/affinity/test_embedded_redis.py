"""The embedded server is real, its own, and gone with its parent."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from urllib.parse import urlsplit

import pytest
import redis

from gateway.affinity.embedded import embedded_redis

HOLD = """
import time
from gateway.affinity.embedded import embedded_redis
with embedded_redis() as url:
    print(url, flush=True)
    time.sleep(60)
"""


def refuses(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) != 0


def wait_until(check):
    end = time.monotonic() + 5
    while not check():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_two_servers_are_apart_and_end_with_their_contexts():
    with embedded_redis() as one, embedded_redis() as other:
        assert one != other
        with redis.Redis.from_url(one) as client, redis.Redis.from_url(other) as stranger:
            client.set("k", "v")
            assert stranger.get("k") is None
            assert client.config_get("save")["save"] == ""
            assert client.config_get("bind")["bind"] == "127.0.0.1"
            folder = client.config_get("dir")["dir"]
        assert os.path.isdir(folder)
    assert not os.path.exists(folder)
    assert all(refuses(urlsplit(url).port) for url in (one, other))


@pytest.mark.skipif(sys.platform != "linux", reason="the parent's death is told to a child on Linux only")
def test_dies_with_a_killed_parent():
    parent = subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True)
    try:
        port = urlsplit(parent.stdout.readline().strip()).port
        assert not refuses(port)
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        parent.stdout.close()
    wait_until(lambda: refuses(port))
