"""Finished records to a shared stream, so that several gateways' requests can be looked at together."""

from __future__ import annotations

from gateway.affinity.link import StoreLink
from gateway.observe.describe import stream_fields
from gateway.observe.records import RequestRecord

KEY = "sapwood:requests"
LIMIT = 10_000
"""Entries; Redis cuts roughly there."""


class RecordStream:
    """A sink of observations. What it writes holds nothing of what was said; a store that is away misses it."""

    def __init__(self, link: StoreLink) -> None:
        self._link = link

    def __call__(self, record: RequestRecord) -> None:
        fields = stream_fields(record)
        self._link.tell(lambda store: store.append(KEY, fields, LIMIT))
