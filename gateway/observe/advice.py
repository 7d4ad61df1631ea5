"""What to do about a prefix break or a gap: one line for each kind. Rules are the gateway's rewrite rules."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.canonical.explain_classes import BreakClass
from gateway.observe.gap import GapCause

ADVICE: Mapping[BreakClass, str] = {
    BreakClass.MODEL_CHANGED: "Each model has a cache of its own: change models between tasks, not within one.",
    BreakClass.OPTIONS_CHANGED: "Options of the template stand in front of the whole prompt: keep them for a session.",
    BreakClass.TOOLS_REORDERED: "Send the tools in a fixed order, or switch on the rule sort_tools.",
    BreakClass.TOOLS_ADDED: "Send all tools from the first turn on, or use the rule freeze_tools.",
    BreakClass.TOOLS_REMOVED: "Tools stand in front of the history: keep them all, or use the rule freeze_tools.",
    BreakClass.TOOLS_CHANGED: "Keep a tool's definition for the session, or use the rule freeze_tools.",
    BreakClass.BILLING_HEADER: "The client's billing line changes: switch on the rule drop_billing_header.",
    BreakClass.TIMESTAMP: "Say the time in the newest message only, or switch on the rule freeze_timestamps.",
    BreakClass.VOLATILE_LINE: "Say it in the newest message only, or switch on the rule move_volatile_lines.",
    BreakClass.WHITESPACE: "White space was cut or added after it was sent: send the history back as it came.",
    BreakClass.SYSTEM_CHANGED: "Keep the system prompt, and say what is new in a message at the end.",
    BreakClass.REASONING_STRIPPED: "Send the reasoning back with the history, or switch on the rule keep_reasoning.",
    BreakClass.REASONING_CHANGED: "Send reasoning back as it came, or never.",
    BreakClass.ARGUMENTS_REWRITTEN: "Send a tool call's arguments back as they came.",
    BreakClass.TOOL_RESULT_CHANGED: "Cut a tool's result once, when it is made, and not later on.",
    BreakClass.REMINDER_MOVED: "Append a new reminder, and leave the old one where it was.",
    BreakClass.HISTORY_TRUNCATED: "Drop many old messages at once and seldom, or compact instead.",
    BreakClass.HISTORY_COMPACTED: "A summary took the place of the history. This costs one prompt, and is meant to.",
    BreakClass.HISTORY_EDITED: "Append corrections, and leave what was sent.",
}

CAUSES: Mapping[GapCause, str] = {
    GapCause.REPLICA_RESTARTED: "The replica was restarted since the turn before, and its cache is gone.",
    GapCause.NEVER_HELD: "Another replica computed the turn before. The line `replica` says why this one was chosen.",
    GapCause.SCHEMA_KEY_ORDER: "The keys in the tools' JSON changed their order: switch on the rule sort_schema_keys.",
    GapCause.NO_CACHE: "The replica has not reported a cached token yet: is its prefix cache on?",
    GapCause.EVICTED: "The replica needed the memory for others: give it more cache, or add a replica.",
}
