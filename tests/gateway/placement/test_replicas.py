from __future__ import annotations

from gateway.placement.breaker import BreakerSettings
from gateway.placement.load import Flight, Load
from gateway.placement.replica import DownCause, Replica, ReplicaState, Terms, Want, candidates


def up(url, *models):
    replica = Replica(url, models={model: {} for model in models})
    replica.went_up("e")
    return replica


def test_a_flight_counts_once_whatever_the_order():
    load = Load()
    first, second = Flight(load, 100, now=0.0), Flight(load, 50, now=0.0)
    assert (load.in_flight, load.work.tokens) == (2, 150)
    assert first.first_byte(3.0) == 3.0
    first.close(4.0)
    first.close(4.0)
    assert first.first_byte(5.0) is None
    assert (load.in_flight, load.work.tokens) == (1, 50)
    second.close(6.0)
    assert (load.in_flight, load.work.tokens) == (0, 0)
    assert load.recent.value(0.0) == 150
    assert 70 < load.recent.value(10.0) < 80


def urls(replicas, want, now=0.0):
    return [replica.url for replica in candidates(replicas, want, now)]


def test_candidates_by_model_then_any_then_unprobed():
    one, other, unlisted = up("a", "m"), up("b", "n"), up("c")
    assert urls([one, other, unlisted], Want("m")) == ["a", "c"]
    assert urls([one, other], Want("absent")) == ["a", "b"]
    assert urls([one, other], Want("m", given_up=frozenset("a"))) == []
    one.went_down(DownCause.GONE, "x")
    assert urls([one, Replica("new")], Want("m")) == ["new"]


def test_a_draining_replica_takes_its_own_until_the_grace_is_over():
    one, other = up("a", "m"), up("b", "m")
    one.drain(stay_until=10.0)
    assert urls([one, other], Want("m")) == ["b"]
    assert urls([one, other], Want("m", home="a"), now=9.0) == ["a", "b"]
    assert urls([one, other], Want("m", home="a"), now=10.0) == ["b"]
    assert urls([one, up("c", "n")], Want("m")) == []  # not to one that does not have the model
    one.undrain()
    assert urls([one, other], Want("m")) == ["a", "b"]


def test_an_open_breaker_is_passed_over_unless_all_are_open():
    replicas = [up("a"), up("b")]
    for replica in replicas:
        replica.breaker.settings = BreakerSettings(failures=1, open_s=5)
    replicas[0].breaker.begin(0.0).end(0.0, failed=True)
    assert urls(replicas, Want("m"), now=1.0) == ["b"]
    assert urls(replicas, Want("m"), now=5.0) == ["a", "b"]
    replicas[1].breaker.begin(1.0).end(1.0, failed=True)
    assert urls(replicas, Want("m"), now=1.0) == ["a", "b"]


def test_room():
    replica = Replica("a", Terms(max_in_flight=1))
    flight = Flight(replica.load, 10, now=0.0)
    assert not replica.has_room()
    flight.close(1.0)
    assert replica.has_room()
    assert Replica("b").has_room()


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
