"""How many tokens an estimated token is: lengths are estimated from bytes, and engines count."""

from __future__ import annotations

GAIN = 0.05
LEAST, MOST = 0.25, 4.0
MIN_TOKENS = 64


class Scale:
    """Running mean of counted over estimated, bounded."""

    def __init__(self) -> None:
        self.factor = 1.0

    def tokens(self, estimated: int) -> int:
        return round(estimated * self.factor)

    def learn(self, estimated: int, counted: int) -> None:
        if estimated >= MIN_TOKENS and counted >= MIN_TOKENS:
            self.factor += GAIN * (min(max(counted / estimated, LEAST), MOST) - self.factor)
