"""`x-sapwood-cache`: what the gateway knows about the cache when an answer starts, in one short line.

    value   = verdict *( "; " name "=" token )
    verdict = "hit" / "miss" / "break"
    names   = class, at, lost           (of a break only)
              predicted, prompt, turn, replica
    token   = visible ASCII without ";" and "="; numbers are decimal

All numbers are estimates of tokens. Fields that would make the value longer than 255 bytes are left out, the last
ones first.
"""

from __future__ import annotations

from gateway.observe.records import RequestRecord

NAME = b"x-sapwood-cache"
REQUEST_NAME = b"x-sapwood-request"
MAX_BYTES = 255


def cache_header(record: RequestRecord) -> tuple[bytes, bytes]:
    return NAME, cache_line(record)


def cache_line(record: RequestRecord) -> bytes:
    words = [_verdict(record), *(f"{name}={_token(value)}" for name, value in _fields(record))]
    line = words[0]
    for word in words[1:]:
        if len(line) + 2 + len(word) > MAX_BYTES:
            break
        line += f"; {word}"
    return line.encode("ascii")


def _verdict(record: RequestRecord) -> str:
    if record.broken:
        return "break"
    return "hit" if record.placed and record.placed.predicted_tokens else "miss"


def _fields(record: RequestRecord) -> list[tuple[str, object]]:
    fields: list[tuple[str, object]] = []
    if record.broken:
        at = f"{record.broken.path}+{record.broken.offset}"
        fields += [("class", record.broken.kind.value), ("at", at), ("lost", record.lost_tokens)]
    if record.placed:
        fields.append(("predicted", record.placed.predicted_tokens))
    fields.append(("prompt", record.prompt_estimate))
    if record.turn:
        fields.append(("turn", record.turn.value))
    if record.placed:
        fields.append(("replica", record.placed.replica))
    return fields


def _token(value: object) -> str:
    return "".join(char if "!" <= char <= "~" and char not in ";=" else "?" for char in str(value))
