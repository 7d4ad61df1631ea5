from __future__ import annotations

from gateway.placement.load import Flight, Load
from gateway.placement.replica import DownCause, Replica, ReplicaState, candidates


def up(url, *models):
    replica = Replica(url, models={model: {} for model in models})
    replica.went_up("e")
    return replica


def test_a_flight_counts_once_whatever_the_order():
    load = Load()
    first, second = Flight(load, 100, now=0.0), Flight(load, 50, now=0.0)
    assert (load.in_flight, load.waiting_tokens) == (2, 150)
    first.first_byte()
    first.close()
    first.close()
    first.first_byte()
    assert (load.in_flight, load.waiting_tokens) == (1, 50)
    second.close()
    assert (load.in_flight, load.waiting_tokens) == (0, 0)
    assert load.recent.value(0.0) == 150
    assert 70 < load.recent.value(10.0) < 80


def test_candidates_by_model_then_any_then_unprobed():
    one, other, unlisted = up("a", "m"), up("b", "n"), up("c")
    urls = [r.url for r in candidates([one, other, unlisted], "m", set())]
    assert urls == ["a", "c"]
    assert [r.url for r in candidates([one, other], "absent", set())] == ["a", "b"]
    assert [r.url for r in candidates([one, other], "m", {"a"})] == []
    one.went_down(DownCause.GONE, "x")
    assert [r.url for r in candidates([one, Replica("new")], "m", set())] == ["new"]


def test_epochs_are_kept_plain():
    replica = up("a")
    replica.learn_epoch("boot-1")
    assert replica.epoch == "boot-1"
    replica.learn_epoch("a b\n")
    assert replica.epoch.isalnum()


def test_transitions():
    replica = Replica("a")
    assert replica.state is ReplicaState.UNKNOWN
    replica.went_down(DownCause.GONE, "refused")
    replica.went_down(DownCause.SILENT, "timed out")
    assert (replica.state, replica.was_gone, replica.detail) == (ReplicaState.DOWN, True, "timed out")
    replica.went_up("e2")
    assert (replica.state, replica.was_gone, replica.epoch) == (ReplicaState.HEALTHY, False, "e2")
