"""Compiled grammars by the digest of what they were compiled from, so that a conversation's next turn finds them."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any


class CompiledCache:
    """Keeps the most recently used, up to `limit` bytes by xgrammar's own measure. May be used from several threads."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self._lock = threading.Lock()
        self._kept: OrderedDict[bytes, tuple[Any, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, kind: str, source: str, compile_source: Callable[[], Any]) -> Any:
        """What was kept for this kind and source, else what `compile_source` makes of it.

        Nobody waits for another's compilation: two who come at once with a new grammar both compile it.
        """
        digest = hashlib.sha256(f"{kind}\0{source}".encode("utf-8", "surrogatepass")).digest()
        with self._lock:
            if digest in self._kept:
                self._kept.move_to_end(digest)
                return self._kept[digest][0]
        compiled = compile_source()
        self._keep(digest, compiled, int(compiled.memory_size_bytes))
        return compiled

    def _keep(self, digest: bytes, compiled: Any, size: int) -> None:
        with self._lock:
            if digest in self._kept or size > self.limit:
                return
            self._kept[digest] = (compiled, size)
            self.bytes += size
            while self.bytes > self.limit:
                self.bytes -= self._kept.popitem(last=False)[1][1]
