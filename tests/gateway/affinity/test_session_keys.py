"""Session names in their order, and keys that no other tenant's request produces."""

from __future__ import annotations

from gateway.affinity.keys import MAX_BOUNDARIES, KeySpace, bind_keys, lookup_keys, session_name
from gateway.canonical.chain import digest_chain
from gateway.dialects.chat import Chat
from gateway.guard.tenant import tenant_of

ORDER = [
    ("x-sapwood-session", "a"),
    ("x-session-id", "b"),
    ("session-id", "c"),
    ("x-claude-code-session-id", "d"),
    ("x-litellm-session-id", "e"),
]


def parse(**body):
    return Chat().parse({"model": "m", "messages": [{"role": "user", "content": "x"}], **body})


def test_order_of_session_fields():
    headers = dict(ORDER)
    assert session_name(parse(prompt_cache_key="k", user="u"), headers) == "k"
    for header, value in ORDER:
        assert session_name(parse(user="u"), headers).split("/")[0] == value
        del headers[header]
    assert session_name(parse(user="u"), {}) == "u"
    assert session_name(parse(), {}) is None
    assert session_name(parse(prompt_cache_key=7, user=""), {}) is None


def test_sub_agents_of_one_session_differ():
    session = {"x-claude-code-session-id": "d"}
    names = {session_name(parse(), session | {"x-claude-code-agent-id": agent}) for agent in ("1", "2")}
    assert len(names | {session_name(parse(), session)}) == 3


def test_tenants_share_nothing():
    one, other = (tenant_of({"authorization": f"Bearer {key}"}, b"secret") for key in "ab")
    again = tenant_of({"authorization": "Bearer a"}, b"other secret")
    assert len({one.scope, other.scope, again.scope, tenant_of({}, b"secret").scope}) == 4
    assert one.hide("session") != other.hide("session")
    keys = [lookup_keys(KeySpace(t.scope), digest_chain(t.scope, parse()), t.hide("s")) for t in (one, other)]
    assert not {k.key for k in keys[0]} & {k.key for k in keys[1]}


def test_lookup_order_and_bound():
    turns = [{"role": "system", "content": "s"}, *({"role": "user", "content": str(n)} for n in range(400))]
    chain = digest_chain("t", Chat().parse({"model": "m", "messages": turns}))
    keys = lookup_keys(KeySpace("t"), chain, "s")
    assert [k.level.value for k in keys] == ["prefix"] * MAX_BOUNDARIES + ["session", "head"]
    assert keys[0].key.endswith(chain.links[-1].id)
    assert [key for key, _ in bind_keys(KeySpace("t"), chain, "s")] == [keys[-1].key, keys[0].key, keys[-2].key]
