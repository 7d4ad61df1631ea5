"""Ctrl-C and SIGTERM end what runs in an orderly way."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anyio import CancelScope


async def cancel_on_signal(scope: CancelScope) -> None:
    """Wait for the first signal, then cancel, so that streams are closed, tools killed and worktrees removed."""
    import anyio

    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            scope.cancel()
            break
    for number in (signal.SIGINT, signal.SIGTERM):  # a second Ctrl-C must not break off the cleaning up
        signal.signal(number, signal.SIG_IGN)
