"""What placement's tests are made of."""

from __future__ import annotations

from gateway.affinity.base import Binding, Level, Match
from gateway.placement.base import Choice, Observation, ReplicaView, RequestView

NOW_MS = 1_000_000
REQUEST = RequestView("head", 1000, 400)


def replica(url, in_flight=0, waiting=0, recent=0.0, epoch="e", head=0, head_s=0.0):
    return ReplicaView(url, epoch, in_flight, waiting, recent, head, head_s)


def match(url, level=Level.PREFIX, tokens=900, epoch="e", age_s=0):
    return Match(level, Binding(url, epoch, tokens, "l", NOW_MS - age_s * 1000))


def observe(policy, choice: Choice, *, prompt=1000, cached=None, seconds=None, epoch="e", estimated=1000):
    policy.learn(Observation(choice, epoch, estimated, prompt, cached, seconds))


def teach_rate(policy, url, rate, epoch="e", tokens=4000, times=200):
    """Requests that computed `tokens` at `rate`."""
    choice = Choice(url, "seconds", 0, tokens)
    for _ in range(times):
        observe(policy, choice, prompt=tokens, cached=0, seconds=tokens / rate, epoch=epoch, estimated=tokens)
