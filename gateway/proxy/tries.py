"""Where a request has been. Few tries in all: it may be the request that brings replicas down."""

from __future__ import annotations

from gateway.proxy.upstream import Unreachable

MAX_TRIES = 4


class Tries:
    def __init__(self) -> None:
        self.made = 0
        self.given_up: frozenset[str] = frozenset()
        self.queued_s = 0.0
        self.failure = ""
        """The last one, in words."""
        self._broken: set[str] = set()

    def left(self) -> bool:
        return self.made < MAX_TRIES

    def give_up(self, url: str, failure: str) -> None:
        self.given_up |= {url}
        self._failed(url, failure)

    def forgives(self, url: str, error: Unreachable) -> bool:
        """A connection that was made and then broke may have been an idle one that the replica just closed.

        So the first of them gets a second try; a replica that is really gone then refuses the new connection.
        """
        if error.connected and url not in self._broken:
            self._broken.add(url)
            self._failed(url, str(error))
            return True
        self.give_up(url, str(error))
        return False

    def _failed(self, url: str, failure: str) -> None:
        self.made += 1
        self.failure = f"{url}: {failure}"
