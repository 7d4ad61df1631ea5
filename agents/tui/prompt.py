"""The input line: several lines, what was typed before, completion of commands."""

from __future__ import annotations

from textual import events
from textual.message import Message
from textual.widgets import TextArea
from textual.widgets.text_area import Selection

from agents.tui.commands import completed
from agents.tui.history import History
from agents.tui.ink import clean

_NEW_LINE = frozenset({"ctrl+j", "shift+enter", "alt+enter"})


class Prompt(TextArea):
    class Sent(Message):
        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Paged(Message):
        """PgUp (-1) or PgDn (1): meant for the transcript."""

        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

    class Leave(Message):
        """Ctrl-D on an empty line."""

    class Over(Message):
        """Tab, with nothing to complete."""

    def __init__(self) -> None:
        super().__init__(
            id="prompt",
            soft_wrap=True,
            show_line_numbers=False,
            highlight_cursor_line=False,
            placeholder="What is to be done? /help tells what there is.",
        )
        self.typed = History()
        self.models: list[str] = []
        """Names that /model can be completed to."""

    def take(self) -> str:
        """The text, which is gone from the line then."""
        text = self.text
        self.load_text("")
        return text

    def put(self, text: str) -> None:
        self.load_text(text)
        self.move_cursor(self.document.end)

    def give_back(self, text: str) -> None:
        """Text that was sent and has not been used, before what is there now."""
        self.put(f"{text}\n{self.text}" if self.text else text)

    def unselect(self) -> None:
        self.selection = Selection.cursor(self.cursor_location)

    async def _on_key(self, event: events.Key) -> None:
        if self._handled(event.key):
            event.stop()
            event.prevent_default()

    async def _on_paste(self, event: events.Paste) -> None:
        event.text = clean(event.text.replace("\r\n", "\n").replace("\r", "\n"))

    def _handled(self, key: str) -> bool:
        if key in _NEW_LINE:
            self.replace("\n", *self.selection)
            return True
        match key:
            case "enter":
                self.post_message(self.Sent(self.take()))
            case "ctrl+d" if not self.text:
                self.post_message(self.Leave())
            case "pageup" | "pagedown":
                self.post_message(self.Paged(-1 if key == "pageup" else 1))
            case "up" if self.navigator.is_first_wrapped_line(self.cursor_location):
                self._recall(self.typed.older(self.text))
            case "down" if self.navigator.is_last_wrapped_line(self.cursor_location):
                self._recall(self.typed.newer())
            case "tab" if self.text.startswith("/"):
                self.put(completed(self.text, self.models))
            case "tab":
                self.post_message(self.Over())
            case _:
                return False
        return True

    def _recall(self, text: str | None) -> None:
        if text is not None:
            self.put(text)
