"""Replacing a function touches its own lines only, whatever its place, margin and line ends."""

from __future__ import annotations

import ast
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.errors import ToolFault
from tools.functions import find_functions, parse_function, splice

MODULE = '''\
import os  # kept

@decorated(1)
def first(a,
          b):
    """Old."""
    return a - b  # gone


class Shape:
    x = 1

    @property
    async def area(self):
        return 0

    def name(self): return "shape"

LAST = 1'''


def replaced(text: str, code: str) -> str:
    new = parse_function(code)
    (old,) = find_functions(text, new.name)
    return splice(text, old, new)


def test_a_function_keeps_its_decorators_and_neighbours() -> None:
    expected = MODULE.replace(
        MODULE[MODULE.index("def first") : MODULE.index("  # gone") + 8], "def first(a, b):\n    return a + b"
    )
    assert replaced(MODULE, "def first(a, b):\n    return a + b\n") == expected


def test_new_decorators_replace_the_old_ones() -> None:
    result = replaced(MODULE, "@other\ndef first(a, b):\n    return 1")
    assert "@decorated" not in result
    assert "kept\n\n@other\ndef first" in result


def test_a_method_gets_its_margin() -> None:
    result = replaced(MODULE, "    async def area(self):\n        if self:\n            return 1\n\n        return 2\n")
    assert (
        "    @property\n    async def area(self):\n        if self:\n            return 1\n\n"
        "        return 2\n\n    def name" in result
    )


def test_a_one_line_method_can_grow() -> None:
    assert '    def name(self):\n        return "x"\n\nLAST = 1' in replaced(MODULE, 'def name(self):\n    return "x"')


def test_strings_over_lines_keep_their_value_and_docstrings_their_look() -> None:
    code = 'def area(self):\n    """Doc\n\n    more."""\n    return """a\n b\n"""\n'
    result = replaced(MODULE, code)
    assert '        """Doc\n\n        more."""\n' in result
    returned = ast.parse(result).body[2].body[1].body[1].value
    assert ast.literal_eval(returned) == "a\n b\n"


def test_windows_line_ends_stay() -> None:
    text = MODULE.replace("\n", "\r\n")
    result = replaced(text, "def first(a, b):\n    return a + b")
    assert "\n" not in result.replace("\r\n", "")
    assert replaced(text[: text.index("\r\n\r\n\r\nclass")], "def first(a, b):\n    return 0").endswith("return 0")


def test_a_byte_order_mark_stays() -> None:
    result = replaced("\ufeffdef f():\n    return 1\n", "def f():\n    return 2")
    assert result == "\ufeffdef f():\n    return 2\n"


@pytest.mark.parametrize(
    "code",
    [
        "```python\ndef f():\n    return 2\n```\nThat is it.",
        "def f():\n    return 2\n```\nand more",
        "```\ndef f():\n    return 2",
    ],
)
def test_a_code_fence_is_not_code(code: str) -> None:
    assert parse_function(code).code == "def f():\n    return 2"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("", "it has: nothing"),
        ("x = 1", "it has: Assign"),
        ("import os\ndef f():\n    pass", "it has: Import, FunctionDef"),
        ("def f():\n    pass\ndef g():\n    pass", "it has: FunctionDef, FunctionDef"),
        ("class A:\n    pass", "it has: ClassDef"),
        ("def f(:\n    pass", "does not parse: line 1"),
        ("def f():\n    x = 'a", "does not parse: line 2"),
        ("def f():\n    return " + "(" * 300 + ")" * 300, "does not parse"),
        ("def f():\n    return '\0'", "does not parse"),
    ],
)
def test_anything_but_one_function_is_refused(code: str, words: str) -> None:
    with pytest.raises(ToolFault, match="code") as caught:
        parse_function(code)
    assert words in str(caught.value)


NAMES = ("f0", "f1", "f2")
BODIES = st.lists(
    st.sampled_from(["pass", "return 1", "x = '''a\n  b'''", "if 1:\n        pass", "# note", ""]), max_size=4
)


@st.composite
def functions(draw: st.DrawFn, name: str) -> str:
    body = [*draw(BODIES), "pass"]
    return f"def {name}():\n" + "".join(f"    {line}\n" if line else "\n" for line in body)


@given(data=st.data(), in_class=st.booleans())
def test_only_the_named_function_changes(data: st.DataObject, in_class: bool) -> None:
    sources = [data.draw(functions(name)) for name in NAMES]
    text = "".join(sources)
    if in_class:
        text = "class C:\n" + textwrap.indent(text, "    ")
    target = data.draw(st.sampled_from(NAMES))
    code = data.draw(functions(target))
    result = replaced(text, code)
    for name in NAMES:
        (after,) = find_functions(result, name)
        source = code if name == target else text
        (before,) = find_functions(source, name)
        assert ast.dump(after) == ast.dump(before)
