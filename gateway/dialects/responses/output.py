"""An answer's output: which item each piece of the upstream's answer belongs to.

One item is open at a time, as clients expect: what comes next closes the one before, and text after a call is a
message of its own. Only calls that the upstream sends interleaved stay open side by side until the end.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Any

from gateway.dialects.responses.calls import Call, Place
from gateway.dialects.responses.delta import CallPiece, Piece
from gateway.dialects.responses.envelope import Status
from gateway.dialects.responses.items import Event, Item, Message, Reasoning
from gateway.dialects.responses.names import Names


class Output:
    def __init__(self, answer_id: str, names: Names, *, as_summary: bool, sealed: bool) -> None:
        self._answer_id = answer_id
        self._names = names
        self._as_summary = as_summary
        self._sealed = sealed
        self._items: list[Item] = []
        self._calls: list[Call] = []
        self._by_index: dict[int, Call] = {}
        self._call_ids: set[str] = set()

    def json(self) -> list[dict[str, Any]]:
        return [item.json() for item in self._items]

    def hear(self, piece: Piece) -> list[Event]:
        events: list[Event] = []
        if piece.reasoning:
            events += self._think(piece.reasoning)
        if piece.text:
            events += self._message("output_text", piece)
        if piece.refusal:
            events += self._message("refusal", piece)
        for call in piece.calls:
            events += self._hear_call(call)
        return events

    def finish(self, status: Status) -> list[Event]:
        """Everything is closed; an answer without anything is an empty message."""
        events = self._open_waiting(whole=True)
        if not self._items:
            message = self._new_message()
            events += [*message.opened(), *message.say("output_text", "")]
        return events + [event for item in self._items if item.is_open for event in item.closed(status)]

    def abandon(self) -> None:
        """The answer broke off: what is open stays incomplete."""
        for item in self._items:
            if item.is_open:
                item.status = Status.INCOMPLETE

    def _think(self, text: str) -> list[Event]:
        last = self._items[-1] if self._items else None
        if isinstance(last, Reasoning) and last.is_open:
            return last.say(text)
        closed = self._close_whole()
        item = Reasoning(f"rs_{self._unique()}", len(self._items), as_summary=self._as_summary, sealed=self._sealed)
        self._items.append(item)
        return [*closed, *item.opened(), *item.say(text)]

    def _message(self, kind: str, piece: Piece) -> list[Event]:
        text, logprobs = (piece.refusal, ()) if kind == "refusal" else (piece.text, piece.logprobs)
        last = self._items[-1] if self._items else None
        if isinstance(last, Message) and last.is_open:
            return last.say(kind, text, logprobs)
        closed = self._close_whole()
        message = self._new_message()
        return [*closed, *message.opened(), *message.say(kind, text, logprobs)]

    def _new_message(self) -> Message:
        message = Message(f"msg_{self._unique()}", len(self._items))
        self._items.append(message)
        return message

    def _hear_call(self, piece: CallPiece) -> list[Event]:
        call = self._call_of(piece)
        events = call.hear(piece)
        return events if call.item else self._open_waiting(whole=False)

    def _open_waiting(self, *, whole: bool) -> list[Event]:
        """Calls keep the upstream's order: one that can't be named yet holds back those behind it."""
        events: list[Event] = []
        for call in self._calls:
            if call.item is None:
                events += self._open_call(call, whole=whole)
            if call.item is None:
                break
        return events

    def _open_call(self, call: Call, *, whole: bool) -> list[Event]:
        own_id = call.call_id if call.call_id not in self._call_ids else ""
        place = Place(self._unique(), len(self._items), own_id or f"call_{self._unique()}")
        opened = call.open(place, self._names, whole=whole)
        if call.item is None:
            return []
        closed = self._close_whole()
        self._items.append(call.item)
        self._call_ids.add(place.call_id)
        return closed + opened

    def _call_of(self, piece: CallPiece) -> Call:
        """By index, or where that is missing by id; what has neither goes on with the last call."""
        known = self._calls[-1] if self._calls else None
        if piece.index is not None:
            known = self._by_index.get(piece.index)
        elif piece.call_id:
            known = next((call for call in self._calls if call.call_id == piece.call_id), None)
        if known is None or _begins_another(piece, known):
            known = Call()
            self._calls.append(known)
        if piece.index is not None:
            self._by_index[piece.index] = known
        return known

    def _close_whole(self) -> list[Event]:
        """Close what the next item ends: all up to a call that may go on, as clients keep items in the order in which
        they are done."""
        still_open = [item for item in self._items if item.is_open]
        ended = takewhile(lambda item: item.is_whole, still_open)
        return [event for item in ended for event in item.closed(Status.COMPLETED)]

    def _unique(self) -> str:
        return f"{self._answer_id}_{len(self._items)}"


def _begins_another(piece: CallPiece, known: Call) -> bool:
    """Servers that give all calls the same index still give each its own id, and its name with it."""
    return bool(piece.name and piece.call_id and known.call_id) and piece.call_id != known.call_id
