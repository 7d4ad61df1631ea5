"""The terminal UI: the transcript of one session, a line to type in, and how the session stands."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import TextArea

from agents.tui import looks
from agents.tui.answers import model_of
from agents.tui.approval import Approval
from agents.tui.blocks import Notice
from agents.tui.commands import Command, Name, Wrong, hint_lines, parse
from agents.tui.footer import Standing, footer
from agents.tui.ink import Ink, Line, clean_line, line
from agents.tui.obey import must_wait
from agents.tui.panel import Panel
from agents.tui.ports import Talk
from agents.tui.prompt import Prompt
from agents.tui.question import Answer, Question
from agents.tui.replay import replay
from agents.tui.stage import Stage
from agents.tui.transcript import Transcript
from agents.tui.work import GO_ON, Work
from agents.tui.wrap import clipped

FRAME = 0.05
"""Seconds between two looks at what is streaming in."""
TWICE = 2.0
"""Seconds in which a second Ctrl-C leaves."""
GRACE = 0.4
"""Seconds before a question takes keys."""
_WAITING_SHOWN = 4


class SapwoodApp(App[None], inherit_bindings=False):
    """`hold` gives it the session before it runs. `first` is said at once; `clock` counts seconds."""

    ENABLE_COMMAND_PALETTE = False
    TITLE = "sapwood code"
    CSS = looks.CSS
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", priority=True),
        Binding("ctrl+o", "folds", priority=True),
        Binding("ctrl+d", "leave"),
    ]

    def __init__(
        self,
        greeting: str = "",
        first: str | None = None,
        grace: float = GRACE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(ansi_color=True)
        self.register_theme(looks.THEME)
        self.theme = looks.THEME.name
        self._greeting, self._first, self._grace, self._clock = greeting, first, grace, clock
        self.transcript, self.prompt = Transcript(), Prompt()
        self.stage = Stage(self.transcript, lambda: self._work.talk.state.id, self._flush_soon, self._show)
        self._work = Work(self.stage, self._show, self.prompt.give_back, clock)
        self._waiting = Panel(self._waiting_lines, id="waiting")
        self._hints = Panel(self._hint_lines, id="hints")
        self._footer = Panel(self._footer_lines, id="footer")
        self._interrupted = clock() - TWICE
        """When Ctrl-C was pressed."""
        self._flash: tuple[float, Line] | None = None
        """Shown for a moment, and since when."""
        self._flushing = self._leaving = False
        self._one_question = asyncio.Lock()

    def hold(self, talk: Talk) -> None:
        self._work.talk = talk

    def compose(self) -> ComposeResult:
        yield self.transcript
        yield self._waiting
        yield self._hints
        yield self.prompt
        yield self._footer

    def on_mount(self) -> None:
        self.prompt.focus()
        self.set_interval(1, self._tick)
        if self._greeting:
            self.transcript.add(Notice(self._greeting))
        for block in replay(self._work.talk.state):
            self.transcript.add(block)
        if self._first:
            self._enqueue(self._first)
        elif self._work.can_go_on:
            self.transcript.add(Notice("This session was stopped. Enter goes on where it stopped.", Ink.WARN))

    async def ask(self, question: Question) -> Answer:
        """A person's answer; one question at a time."""
        async with self._one_question:
            self.stage.flush()
            approval = Approval(question, self._grace, self._clock)
            await self.mount(approval, before=self._waiting)
            self._work.asking(True)
            if self.prompt.text:
                self._say_shortly("Tab goes to the question")
            else:
                approval.focus()
            try:
                return await approval.answer
            finally:
                approval.remove()
                self.prompt.focus()
                self._work.asking(False)

    def on_resize(self, event: events.Resize) -> None:
        for approval in self.query(Approval):
            approval.fit(event.size.height)

    def on_prompt_sent(self, message: Prompt.Sent) -> None:
        text = message.text.strip("\n")
        if text.strip():
            self.prompt.typed.add(text)
            self._take(text)
        elif not self._work.is_busy and self._work.can_go_on:
            self._enqueue(GO_ON)

    def on_prompt_paged(self, message: Prompt.Paged) -> None:
        self.transcript.scroll_relative(y=message.step * (self.transcript.size.height - 1), animate=False)

    def on_prompt_over(self) -> None:
        question = self.query(Approval)
        (question.first() if question else self.transcript).focus()

    def on_prompt_leave(self) -> None:
        self.action_leave()

    def on_transcript_left(self) -> None:
        self.prompt.focus()

    def on_text_area_changed(self, message: TextArea.Changed) -> None:
        text = self.prompt.text
        if text:
            self._flash = None
        self._show()
        if text.startswith(f"{Name.MODEL} ") and not self.prompt.models:
            self.run_worker(self._list_models(), exclusive=True, group="models")

    def action_folds(self) -> None:
        self.transcript.toggle_all()

    def action_interrupt(self) -> None:
        """Ctrl-C: copy what is selected, stop the turn, empty the line; twice: leave."""
        if selected := self.prompt.selected_text or self.screen.get_selected_text():
            self.copy_to_clipboard(selected)
            self.screen.clear_selection()
            self.prompt.unselect()
            self._say_shortly("copied")
            return
        before, self._interrupted = self._interrupted, self._clock()
        if self._interrupted - before < TWICE:
            self.action_leave()
            return
        if self._work.is_busy:
            self._work.stop()
        else:
            self.prompt.take()
        self._say_shortly("Ctrl-C once more leaves")

    def action_leave(self) -> None:
        """When the turn has been stopped; asked again, without waiting for that."""
        if not self._work.is_busy or self._leaving:
            self.exit()
            return
        self._leaving = True
        self._work.stop()

    def _take(self, text: str) -> None:
        match parse(text):
            case Wrong(why):
                self.stage.insert(Notice(why, Ink.WARN))
            case Command(Name.QUIT):
                self.action_leave()
            case Command() as command if not must_wait(command):
                self.run_worker(self._work.answer(command), group="answers")
            case _:
                self._enqueue(text)

    def _enqueue(self, text: str) -> None:
        if self._work.add(text):
            self.run_worker(self._run(), group="work")

    async def _run(self) -> None:
        await self._work.run()
        if self._leaving:
            self.exit()

    async def _list_models(self) -> None:
        try:
            self.prompt.models = await self._work.talk.models()
        except Exception:  # the command itself will say what is wrong
            self.prompt.models = []

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_later(FRAME, self.call_later, self._show_new)

    def _show_new(self) -> None:
        self._flushing = False
        self.stage.flush()

    def _tick(self) -> None:
        is_over = self._flash is not None and self._clock() - self._flash[0] > TWICE
        if is_over:
            self._flash = None
        if is_over or self._work.is_busy:
            self._show()

    def _show(self) -> None:
        self._footer.set(self._footer_lines)
        self._waiting.set(self._waiting_lines)
        self._hints.set(self._hint_lines)

    def _say_shortly(self, text: str) -> None:
        self._flash = self._clock(), line(f"  {text}", Ink.WARN)
        self._show()

    def _hint_lines(self, width: int) -> Sequence[Line]:
        return [self._flash[1]] if self._flash else hint_lines(self.prompt.text)

    def _footer_lines(self, width: int) -> Sequence[Line]:
        talk, work = self._work.talk, self._work
        turns, limit = talk.state.turns, talk.context_limit
        return footer(Standing(work.activity, work.seconds, model_of(talk.state), turns, limit), width)

    def _waiting_lines(self, width: int) -> Sequence[Line]:
        texts = [clean_line(text) for text in self._work.waiting]
        if not texts:
            return []
        head = line(f"  sent when it rests ({len(texts)} waiting)", Ink.DIM)
        return [head, *(line(clipped(f"    {text}", width), Ink.DIM) for text in texts[:_WAITING_SHOWN])]
