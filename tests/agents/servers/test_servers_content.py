from __future__ import annotations

import base64

import pytest
from mcp import types

from agents.servers.content import MOST_CHARACTERS, progress_text, result_of

DATA = base64.b64encode(b"12345").decode()
TEXT = types.TextContent(type="text", text="hello")


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (types.ImageContent(type="image", data=DATA, mime_type="image/png"), "[image, image/png, 5 bytes: not shown]"),
        (types.AudioContent(type="audio", data="", mime_type="audio/wav"), "[audio, audio/wav, 0 bytes: not shown]"),
        (
            types.ResourceLink(type="resource_link", name="log", uri="file:///log", mime_type="text/plain", size=9),
            "[resource log: file:///log, text/plain, 9 bytes]",
        ),
        (
            types.EmbeddedResource(
                type="resource", resource=types.TextResourceContents(uri="file:///a", text="inside", mime_type="a/b")
            ),
            "[resource file:///a, a/b]\ninside",
        ),
        (
            types.EmbeddedResource(type="resource", resource=types.BlobResourceContents(uri="file:///b", blob=DATA)),
            "[resource file:///b, 5 bytes: not shown]",
        ),
    ],
)
def test_each_kind_of_content(block, text):
    assert result_of(types.CallToolResult(content=[TEXT, block])).text == f"hello\n{text}"


def test_structured_content_stands_in_for_missing_text_only():
    structured = {"timed_out": True, "é": 1}
    assert (
        result_of(types.CallToolResult(content=[], structured_content=structured)).text == '{"timed_out": true, "é": 1}'
    )
    both = result_of(types.CallToolResult(content=[TEXT], structured_content=structured))
    assert (both.text, both.data, both.fault) == ("hello", None, None)


def test_errors_emptiness_and_size():
    assert result_of(types.CallToolResult(content=[TEXT], is_error=True)).is_error
    assert result_of(types.CallToolResult(content=[])).text == "(no output)"
    long = types.TextContent(type="text", text="x" * (2 * MOST_CHARACTERS))
    assert len(result_of(types.CallToolResult(content=[long])).text) < MOST_CHARACTERS + 100


def test_progress():
    assert progress_text(3, 10, "  working\n on it ") == "3 of 10: working on it"
    assert progress_text(0.5, None, None) == "0.5"
