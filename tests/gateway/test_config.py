"""The configuration: from flags, environment and file to one object, or to one line that says what is wrong."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from gateway.config import GatewayConfig
from gateway.config_file import Origin, Setting, origin
from gateway.config_pools import PolicyName, UpstreamKind
from gateway.config_show import show
from gateway.errors import StartError

UP = 'upstreams = ["http://x"]\n'
A = '[[pool]]\nname = "a"\nupstreams = ["http://x:1"]\n'
B = '[[pool]]\nname = "b"\nupstreams = ["http://y:1"]\n'
ROUTE = UP + "[[route]]\n"
ONE_SOURCE = "pool[0]: a pool has either upstreams, a list of URLs, or dns, a HOST:PORT"
ONE_TARGET = "route[0]: a route has either pools, their names, or labels, which its pools carry"


def load(tmp_path, text, environment=(), flags=()):
    path = tmp_path / "config.toml"
    path.write_text(text)
    return Origin(dict(flags), dict(environment), path).load()


COMPLAINTS = [
    ('upstream = ["http://x"]', "upstream: no such setting; did you mean upstreams?"),
    ('upstreams = "http://x"', "upstreams: must be a list, not 'http://x'"),
    ("upstreams = [5]", "upstreams[0]: must be a string, not 5"),
    ('upstreams = ["ftp://x"]', "upstreams: upstream 'ftp://x' is no http:// or https:// URL"),
    ('upstreams = ["x:80"]', "upstreams: upstream 'x:80' is no http:// or https:// URL"),
    ('upstreams = ["http://x", "http://x/v1/"]', "upstreams: an upstream is given twice"),
    ('upstreams = ["http://u:p@x"]', "upstreams: upstream 'http://***@x' may hold neither a query nor credentials"),
    (UP + "port = 70000", "port: must be less than or equal to 65535, not 70000"),
    (UP + 'port = "http"', "port: must be a whole number, not 'http'"),
    (UP + "port = 1.5", "port: must be a whole number, not 1.5"),
    (UP + 'heartbeat_s = "x"', "heartbeat_s: must be a number, not 'x'"),
    (UP + 'excerpts = "maybe"', "excerpts: must be true or false, not 'maybe'"),
    (UP + "admin_key = 5", "admin_key: must be a string, not what it is"),
    (UP + 'redis_url = "http://h"', "redis_url: Redis URL 'http://h' is not of the form redis://HOST:PORT/DB"),
    (UP + "queue = 5", "queue: must be a table, not 5"),
    (UP + "[queue]\nlenght = 5", "queue.lenght: no such setting; did you mean length?"),
    (UP + "[queue]\nlength = -1", "queue.length: must be greater than or equal to 0, not -1"),
    (UP + "[breaker]\nshare = 2", "breaker.share: must be less than or equal to 1, not 2"),
    (UP + "pools = []", "pools: no such setting; write [[pool]]"),
    ("pool = 5", "pool: must be a list, not 5"),
    (
        A + 'policy = "x"',
        "pool[0].policy: must be 'seconds', 'session', 'least-loaded' or 'round-robin', not 'x'",
    ),
    (A + 'kind = "x"', "pool[0].kind: must be 'openai', 'sapwood', 'sglang', 'vllm' or 'llamacpp', not 'x'"),
    (A + "weight = -1", "pool[0].weight: must be greater than or equal to 0, not -1"),
    (A + "labels = {a = 1}", "pool[0].labels.a: must be a string, not 1"),
    (A + 'dns = "h:1"', ONE_SOURCE),
    ('[[pool]]\nname = "a"', ONE_SOURCE),
    ('[[pool]]\nname = "a"\ndns = "h"', "pool[0].dns: 'h' is not of the form HOST:PORT"),
    ('[[pool]]\nname = "a"\ndns = "h:0"', "pool[0].dns: 'h:0': a port is a number from 1 to 65535"),
    (UP + '[[pool]]\ndns = "h:1"', "pool[0].name: is missing"),
    (
        '[[pool]]\nname = "a b"\ndns = "h:1"',
        "pool[0].name: 'a b' is no name: letters, digits, dots, dashes and underscores, at most 64",
    ),
    (A + 'api_key_env = "NO_SUCH"', "pool[0].api_key_env: the environment has no variable NO_SUCH"),
    (A + 'api_key_env = "ODD"', "pool[0].api_key_env: ODD has characters that no header can hold"),
    (A + A.replace("x:1", "y:1"), "pool: there are two named 'a'"),
    (UP + A.replace('"a"', '"default"'), "pool: there are two named 'default'; `upstreams` make that pool"),
    (A + A.replace('"a"', '"b"'), "pool: the upstream http://x:1 is in two pools, and may be in one"),
    ('default_pool = "c"\n' + A + B, "default_pool: there is no pool 'c', but a, b"),
    (ROUTE + 'pools = "b"', "route[0].pools: there is no pool 'b', but default"),
    (ROUTE + 'pols = "b"', "route[0].pols: no such setting; did you mean pools?"),
    (ROUTE + "pools = {default = -1}", "route[0].pools: a weight is a number of 0 or more"),
    (ROUTE + 'pools = {default = "x"}', "route[0].pools.default: must be a number, not 'x'"),
    (ROUTE + 'model = "m"', ONE_TARGET),
    (ROUTE + 'pools = "default"\nlabels = {a = "b"}', ONE_TARGET),
    (ROUTE + 'labels = {a = "b"}', "route[0].labels: no pool carries them"),
    (ROUTE + 'pools = "default"\nshape = "x"', "route[0].shape: must be 'single_turn', 'long' or 'batch', not 'x'"),
    (
        ROUTE + 'pools = "default"\nshape = "long"',
        'route[0]: shape = "long" needs min_tokens, the prompt length from which it holds',
    ),
    (ROUTE + 'pools = "default"\nkey = "ci"', "route[0].key: never fits, as no keys are asked for: set `keys`"),
    (ROUTE + 'pools = "default"\ntenant = "t"', "route[0].tenant: never fits, as no keys are asked for: set `keys`"),
    (UP + "record_stream = true", "record_stream: there is no Redis to write to: set `redis_url`"),
    ("x = = 1", "is no TOML: Invalid value (at line 1, column 5)"),
]


@pytest.mark.parametrize(("text", "complaint"), COMPLAINTS)
def test_each_complaint_names_the_file_and_the_setting(tmp_path, text, complaint):
    with pytest.raises(StartError) as refused:
        load(tmp_path, text, {"ODD": "a\nb"})
    assert str(refused.value) == f"{tmp_path / 'config.toml'}: {complaint}"


def test_what_is_missing_altogether(tmp_path):
    with pytest.raises(StartError) as refused:
        load(tmp_path, "")
    assert str(refused.value) == "there is no upstream: give --upstream URL, or a [[pool]] in a file for --config"
    with pytest.raises(StartError) as refused:
        load(tmp_path, A + B)
    assert str(refused.value) == "default_pool: say which pool takes requests that fit no route: a, b"


def test_a_file_that_can_not_be_read(tmp_path):
    for path, why in ((tmp_path / "none.toml", "No such file or directory"), (tmp_path, "Is a directory")):
        with pytest.raises(StartError) as refused:
            Origin({}, {}, path).load()
        assert str(refused.value) == f"can't read the configuration {path}: {why}"
    (tmp_path / "odd.toml").write_bytes(b"# \xff")
    with pytest.raises(StartError, match=r"is not UTF-8 \(byte 2\)$"):
        Origin({}, {}, tmp_path / "odd.toml").load()


def test_flags_before_the_environment_before_the_file(tmp_path):
    text = UP + "port = 1\nheartbeat_s = 1\nbinding_ttl_s = 1\n[queue]\nlength = 1\ntimeout_s = 1\n"
    environment = {
        "SAPWOOD_GATEWAY_PORT": "2",
        "SAPWOOD_GATEWAY_HEARTBEAT_S": "2",
        "SAPWOOD_GATEWAY_QUEUE__LENGTH": "2",
        "SAPWOOD_TENANT_SECRET": "s",
        "SAPWOOD_GATEWAY_UNKNOWN": "of another program",
    }
    loaded = load(tmp_path, text, environment, {"port": Setting(3, "--port")})
    config = loaded.config
    assert (config.port, config.heartbeat_s, config.binding_ttl_s) == (3, 2, 1)
    assert (config.queue.length, config.queue.timeout_s) == (2, 1)
    assert config.tenant_secret.get_secret_value() == "s"
    assert loaded.sources["port"] == "--port"
    assert loaded.sources["queue.length"] == "$SAPWOOD_GATEWAY_QUEUE__LENGTH"


def test_the_environment_alone(monkeypatch):
    monkeypatch.setenv("SAPWOOD_GATEWAY_UPSTREAMS", "http://a:1, http://b:1/v1")
    monkeypatch.setenv("SAPWOOD_GATEWAY_PORT", "tcp://10.0.0.1:8080")  # Kubernetes, of a service of this name
    config = origin({}, None).load().config
    assert (config.upstreams, config.port) == (("http://a:1", "http://b:1"), 8080)


def test_a_fault_of_the_environment_names_the_variable(tmp_path):
    for name, told, complaint in (
        ("PORT", "x", "port: must be a whole number, not 'x'"),
        ("QUEUE__TIMEOUT_S", "0", "queue.timeout_s: must be greater than 0, not '0'"),
    ):
        variable = f"SAPWOOD_GATEWAY_{name}"
        with pytest.raises(StartError) as refused:
            load(tmp_path, UP, {variable: told})
        assert str(refused.value) == f"${variable}: {complaint}"


def test_pools_and_routes(tmp_path):
    config = load(tmp_path, 'default_pool = "b"\n' + A + 'kind = "vllm"\npolicy = "session"\n' + B).config
    first, second = config.all_pools()
    assert (first.kind, first.policy) == (UpstreamKind.VLLM, PolicyName.SESSION)
    assert (second.policy, config.fallback()) == (PolicyName.SECONDS, "b")
    assert load(tmp_path, A).config.fallback() == "a"
    assert load(tmp_path, UP + A).config.fallback() == "default"


def test_what_check_prints_can_be_read_again(tmp_path):
    text = (
        'redis_url = "redis://user:hidden@h:1/0"\nadmin_key = "hidden"\ndefault_pool = "a"\n[queue]\nlength = 7\n'
        + A
        + 'labels = {gpu = "l4"}\n'
        + B
        + '[[route]]\npools = {a = 2, b = 1}\nmodel = "q*"\n[[route]]\npools = ["a", "b"]\nshape = "batch"\n'
    )
    loaded = load(tmp_path, text)
    shown = show(loaded)
    assert "hidden" not in shown
    assert f"length = 7  # {tmp_path / 'config.toml'}" in shown
    again = GatewayConfig.model_validate(
        {{"pool": "pools", "route": "routes"}.get(name, name): value for name, value in tomllib.loads(shown).items()}
    )
    assert (again.pools, again.routes, again.queue) == (loaded.config.pools, loaded.config.routes, loaded.config.queue)


def test_the_example_holds():
    loaded = Origin({}, {}, Path("examples/gateway.toml")).load().config
    assert [pool.name for pool in loaded.all_pools()] == ["agents", "bulk"]
    assert loaded.routes[-1].rewrite
