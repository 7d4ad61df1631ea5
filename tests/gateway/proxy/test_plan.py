"""Which boundary an earlier request of a conversation can have ended at last."""

from __future__ import annotations

import pytest

from gateway.dialects.chat import Chat
from gateway.guard.tenant import tenant_of
from gateway.proxy.plan import plan_request

SYSTEM, USER, ANSWER, RESULT = ({"role": role, "content": role} for role in ("system", "user", "assistant", "tool"))


def plan(*messages):
    return plan_request(Chat().parse({"model": "m", "messages": list(messages)}), {}, tenant_of({}, b"secret"))


@pytest.mark.parametrize(
    ("messages", "earlier"),
    [
        ([SYSTEM, USER, ANSWER, RESULT], [SYSTEM, USER]),
        ([USER, ANSWER, RESULT, ANSWER, RESULT, RESULT], [USER, ANSWER, RESULT]),
        ([USER, ANSWER], [USER]),
        ([SYSTEM, USER], None),
        ([SYSTEM, ANSWER, USER], None),
        ([ANSWER, USER], None),
        (["odd", USER, ANSWER, 3], ["odd", USER]),
    ],
)
def test_before_the_last_answer(messages, earlier):
    newest = plan(*messages).newest_key
    assert newest == (None if earlier is None else plan(*earlier).lookup()[0].key)
