"""What replicas are asked to keep, for how long, and when it ends."""

from __future__ import annotations

import json

import pytest

from gateway.retention.keeper import LEAST_S, MOST_S, UNKNOWN_S, Keeper, Outcome, Turn

pytestmark = pytest.mark.anyio
ALL = frozenset({"retain", "session"})


class Replica:
    def __init__(self):
        self.asked, self.status = [], 200

    async def post(self, url, body, tenant):
        if self.status == 0:
            raise OSError("gone")
        self.asked.append((url, json.loads(body), tenant))
        return self.status


@pytest.fixture
def replica():
    return Replica()


def turn(**changes):
    return Turn(**{"tenant": "t", "lineage": "l", "url": "http://r", "offers": ALL, **changes})


async def test_the_path_is_kept_for_what_the_tool_took_before(replica):
    keeper, now = Keeper(replica.post), 0.0
    assert await keeper.reply_ended(turn(), ["run_tests"], now) is Outcome.RETAINED
    assert replica.asked == [("http://r/cache/retain", {"session": "l", "seconds": UNKNOWN_S}, "t")]
    for _ in range(20):
        now += 20
        keeper.turn_begins("t", "l", now)
        await keeper.reply_ended(turn(), ["run_tests"], now)
    assert 20 < replica.asked[-1][1]["seconds"] < 45


async def test_other_tools_and_other_tenants_learn_nothing_from_it(replica):
    keeper = Keeper(replica.post)
    await keeper.reply_ended(turn(), ["a"], 0)
    keeper.turn_begins("t", "l", 0.2)
    assert keeper.seconds(turn(), ["a"]) == LEAST_S
    assert keeper.seconds(turn(), ["b"]) == UNKNOWN_S
    assert keeper.seconds(turn(tenant="u"), ["a"]) == UNKNOWN_S
    assert keeper.seconds(turn(), ["a", "b"]) == UNKNOWN_S


async def test_a_reply_without_calls_lets_go_of_what_was_kept(replica):
    keeper = Keeper(replica.post)
    assert await keeper.reply_ended(turn(), [], 0) is None
    await keeper.reply_ended(turn(), ["a"], 1)
    assert await keeper.reply_ended(turn(), [], 2) is Outcome.RELEASED
    assert replica.asked[-1] == ("http://r/cache/release", {"session": "l"}, "t")
    assert await keeper.reply_ended(turn(), [], 3) is None


async def test_a_client_that_knows_better_is_believed_within_bounds(replica):
    keeper = Keeper(replica.post)
    assert keeper.seconds(turn(hint_s=200), ["a"]) == 200
    assert keeper.seconds(turn(hint_s=0), ["a"]) == LEAST_S
    assert keeper.seconds(turn(hint_s=1e9), ["a"]) == MOST_S


async def test_servers_without_retention_are_left_alone(replica):
    keeper = Keeper(replica.post)
    assert await keeper.reply_ended(turn(offers=frozenset()), ["a"], 0) is Outcome.NOT_OFFERED
    assert replica.asked == []


@pytest.mark.parametrize("status", [0, 404, 503])
async def test_a_replica_that_fails_is_no_fault_of_the_request(replica, status):
    replica.status = status
    assert await Keeper(replica.post).reply_ended(turn(), ["a"], 0) is Outcome.FAILED
