"""One tool call of the model: let in, run, and its result written down."""

from __future__ import annotations

import json
from typing import Any

from agents.cut import cut
from agents.events import Kind
from agents.gate import Gate, Refusal
from agents.hold import Hold
from agents.session import Session
from agents.state import Call, Status
from agents.toolbox import Fault, Toolbox, ToolResult
from agents.view import View

REPEATABLE = frozenset({"check_code", "find_files", "git_diff", "list_files", "read_file", "run_tests", "search_text"})
"""Tools that may run again when nobody saw what became of them; no other call ever runs twice."""
INTERRUPTED = "This call was cut off in the middle: it may be done, in part or not at all. Look before you repeat it."


async def execute(call: Call, session: Session, toolbox: Toolbox, gate: Gate, hold: Hold, view: View) -> None:
    """Ends with a `result` event, or with the session at rest because nobody is there to allow the call."""
    state = session.state
    if state.finish_reason == "length":
        _write(
            session, call, ToolResult("Not run: the reply was cut off. Make it shorter.", True, None, Fault.CUT), view
        )
        return
    if call.id in state.started and call.name not in REPEATABLE:
        _write(session, call, ToolResult(INTERRUPTED, True), view)
        return
    arguments, problem = _arguments_of(call)
    if arguments is None:
        _write(session, call, problem, view)
        return
    try:
        allowed = await gate.admit(call, arguments, session)
    except Refusal as refusal:
        _write(session, call, ToolResult(str(refusal), True), view)
        return
    if not allowed:
        why = f"{call.name} waits for your word: --resume {state.id} asks, --resume {state.id} --approve never runs it"
        session.rest(Status.WAITING, why)
        return
    session.append(Kind.CALL, call=call.id, name=call.name)
    view.calling(state.id, call.name, arguments)
    async with hold.during(state.lineage, call.name):
        result = await toolbox.call(call.name, arguments | state.opened["bound"].get(call.name, {}))
    _write(session, call, result, view)


def _write(session: Session, call: Call, result: ToolResult, view: View) -> None:
    session.append(
        Kind.RESULT,
        call=call.id,
        text=cut(result.text, session.state.opened["output_limit"]),
        is_error=result.is_error,
        data=result.data,
        fault=result.fault,
    )
    view.tool(session.state.id, call.name, result)


def _arguments_of(call: Call) -> tuple[dict[str, Any] | None, ToolResult]:
    """The arguments as an object, or the error result that tells the model what is wrong with them."""
    try:
        arguments = json.loads(call.arguments or "{}")
        problem = "" if isinstance(arguments, dict) else "they are not a JSON object"
    except RecursionError:
        arguments, problem = None, "they are nested too deeply"
    except ValueError as error:
        arguments, problem = None, str(error)
    text = f"The arguments of {call.name} cannot be read: {problem}. Nothing was run; call it again."
    return (None if problem else arguments), ToolResult(text, True, None, Fault.MALFORMED)
