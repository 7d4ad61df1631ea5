"""Colours and layout of the screen: the terminal's own palette on its own background, light or dark."""

from __future__ import annotations

from dataclasses import replace

from textual.theme import BUILTIN_THEMES

_ANSI = BUILTIN_THEMES["ansi-dark"]
THEME = replace(
    _ANSI,
    name="sapwood",
    variables=_ANSI.variables
    | {
        "input-cursor-background": "ansi_default",
        "input-cursor-foreground": "ansi_default",
        "input-cursor-text-style": "reverse",
        "screen-selection-background": "ansi_blue",
        "screen-selection-foreground": "ansi_bright_white",
        "scrollbar": "ansi_bright_black",
    },
)
CSS = """
Screen { layout: vertical; background: ansi_default; color: ansi_default; }
#transcript { height: 1fr; scrollbar-size-vertical: 1; overflow-x: hidden; scrollbar-gutter: stable; }
#waiting { height: auto; max-height: 6; }
#hints { height: auto; max-height: 12; }
Approval { height: auto; margin-top: 1; }
Approval VerticalScroll { height: auto; scrollbar-size-vertical: 1; }
Approval Panel { height: auto; }
#prompt { height: auto; max-height: 8; margin-top: 1; padding: 0 1; background: ansi_default; color: ansi_default; }
#prompt, #prompt:focus { border: none; border-left: outer ansi_cyan; }
#prompt:blur { border-left: outer ansi_bright_black; }
#prompt .text-area--placeholder { color: ansi_default; text-style: dim; }
#footer { height: 2; margin-top: 1; }
"""
