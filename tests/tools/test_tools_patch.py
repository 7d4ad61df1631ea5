"""Patches: both spellings read alike, each hunk fits in one place or says why not, all or nothing."""

from __future__ import annotations

import contextlib
import difflib
import os
import shutil
import subprocess

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tools import patching
from tools.errors import ToolFault
from tools.patch import Action, apply, parse

CALC = "def add(a, b):\n    return a - b\n\n\ndef sub(a, b):\n    return a - b\n"


@pytest.fixture
def patch(call):
    return lambda text: call("apply_patch", patch=text)


@pytest.fixture
def calc(root):
    (root / "calc.py").write_text(CALC)
    return root / "calc.py"


def envelope(body: str) -> str:
    return f"*** Begin Patch\n{body}*** End Patch\n"


ENVELOPE = envelope("*** Update File: calc.py\n@@ def add(a, b):\n-    return a - b\n+    return a + b\n")
UNIFIED = "--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,2 @@\n def add(a, b):\n-    return a - b\n+    return a + b\n"


@pytest.mark.parametrize(
    "text",
    [
        ENVELOPE,
        UNIFIED,
        f"```diff\n{UNIFIED}```\n",
        f"Here it is:\n\n```\n{ENVELOPE}```\n",
        UNIFIED.replace("\n", "\r\n"),
        UNIFIED.replace("a/calc.py", "calc.py").replace("b/calc.py", "calc.py"),
        UNIFIED.replace("calc.py\n", "calc.py\t2026-01-01 00:00:00\n"),
        UNIFIED.replace("-1,2 +1,2", "-7,9 +7,9"),
        UNIFIED + "-- \n2.39.5\n\n",
        "diff --git a/calc.py b/calc.py\nindex 1234..5678 100644\n" + UNIFIED,
        UNIFIED.replace("@@ -1,2 +1,2 @@", "@@"),
    ],
)
def test_the_spellings_of_one_change(patch, calc, text):
    assert patch(text).text == "changed calc.py (+1 -1)"
    assert calc.read_text() == CALC.replace("a - b", "a + b", 1)


def test_many_files_in_one_envelope(patch, calc, root):
    (root / "old.txt").write_text("one\ntwo\n")
    (root / "gone.txt").write_text("x")
    reply = patch(
        envelope(
            "*** Add File: new/made.py\n+def f():\n+\n+    return 1\n\n"
            "*** Delete File: gone.txt\n"
            "*** Update File: old.txt\n*** Move to: sub/new.txt\n@@\n one\n-two\n+2\n"
            "*** Update File: calc.py\n@@ def sub(a, b):\n     return a - b\n+\n+# end\n*** End of File\n"
        )
    )
    assert reply.text.splitlines() == [
        "added new/made.py (3 lines)",
        "deleted gone.txt",
        "renamed old.txt to sub/new.txt (+1 -1)",
        "changed calc.py (+2 -0)",
    ]
    assert (root / "new/made.py").read_text() == "def f():\n\n    return 1\n"
    assert (root / "sub/new.txt").read_text() == "one\n2\n"
    assert not (root / "gone.txt").exists()
    assert not (root / "old.txt").exists()
    assert calc.read_text() == CALC + "\n# end\n"


def test_what_git_writes_about_names_and_modes(patch, root):
    (root / "a.txt").write_text("x\n")
    (root / "run.sh").write_text("echo\n")
    (root / "empty").touch()
    reply = patch(
        "diff --git a/a.txt b/b c.txt\nsimilarity index 100%\nrename from a.txt\nrename to b c.txt\n"
        "diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n"
        "diff --git a/empty b/empty\ndeleted file mode 100644\nindex e69de29..0000000\n"
        "diff --git a/fresh b/fresh\nnew file mode 100755\nindex 0000000..e69de29\n"
        'diff --git "a/\\303\\244.txt" "b/\\303\\244.txt"\nnew file mode 100644\n--- /dev/null\n'
        '+++ "b/\\303\\244.txt"\n@@ -0,0 +1 @@\n+ae\n\\ No newline at end of file\n'
    )
    assert not reply.failed, reply.text
    assert sorted(path.name for path in root.iterdir()) == ["b c.txt", "fresh", "run.sh", "ä.txt"]
    assert (root / "ä.txt").read_text() == "ae"
    assert os.access(root / "run.sh", os.X_OK)
    assert os.access(root / "fresh", os.X_OK)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hello", "neither a unified diff"),
        ("", "neither a unified diff"),
        ("*** Begin Patch\n*** Update File: calc.py\n@@\n def add(a, b):\n", "a part of it is missing"),
        (envelope("*** Change File: calc.py\n"), "line 2 of the patch: expected"),
        (envelope("*** Add File: x\nhello\n"), "line 3 of the patch: each line of a new file starts with +"),
        (envelope("*** Update File: calc.py\n@@\nxdef\n"), "starts with a space, + or -, not with 'x'"),
        ("@@ -1 +1 @@\n-a\n+b\n", "no '--- a/PATH'"),
        (UNIFIED.replace("calc", "clac"), "'clac.py' does not exist; find its path"),
        (UNIFIED.replace("calc", "../calc"), "outside the sandbox root"),
        (UNIFIED.replace("calc.py", ".git/config"), "does not exist"),
        (envelope("*** Add File: .git/hooks/x\n+x\n"), "git's own data"),
        (envelope("*** Add File: calc.py\n+x\n"), "exists already"),
        (envelope("*** Update File: calc.py\n*** Move to: calc.py\n"), "changes nothing"),
        (envelope("*** Delete File: folder\n"), "is a folder"),
        (envelope("*** Delete File: link\n"), "is not a regular file"),
        (envelope(""), "changes nothing"),
        ("diff --git a/x b/x\nBinary files a/x and b/x differ\n", "binary changes"),
        ("--- a/calc.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-def add(a, b):\n", "not all of its lines"),
    ],
)
def test_what_cannot_be_is_refused_with_a_reason(patch, calc, root, text, words):
    (root / "folder").mkdir()
    (root / "link").symlink_to("calc.py")
    reply = patch(text)
    assert reply.failed
    assert words in reply.text
    assert calc.read_text() == CALC
    assert sorted(path.name for path in root.iterdir()) == ["calc.py", "folder", "link"]


@pytest.mark.parametrize(
    ("hunk", "words"),
    [
        ("@@\n-    return a - b\n+    return 0\n", "fits in 2 places, at lines 2, 6: add lines around it"),
        ("@@ def mul(a, b):\n-    return a - b\n+    return 0\n", "names a line 'def mul(a, b):' that is not there"),
        (
            "@@\n def add(a, b):\n-   return a-b\n+    return 0\n",
            "The closest lines are:\n   1 | def add(a, b):\n   2 |",
        ),
        ("@@\n def add(a, b):\n-  return a - b\n+    return 0\n", "They differ in white space only."),
        ("@@\n+x = 1\n", "has no old lines"),
        ("@@ def sub(a, b):\n def add(a, b):\n+    pass\n", "fits only at line 1, before its @@ line"),
        ("@@\n def sub(a, b):\n+    pass\n@@\n def add(a, b):\n+    pass\n", "before the hunk above it"),
        ("@@\n-x\n+def sub(a, b):\n", "is there already, at line 5"),
    ],
)
def test_a_hunk_that_does_not_fit_says_why(patch, calc, hunk, words):
    reply = patch(envelope(f"*** Update File: calc.py\n{hunk}"))
    assert reply.failed
    assert reply.text.startswith("nothing was changed: ")
    assert words in reply.text
    assert calc.read_text() == CALC


def test_a_header_chooses_between_places_that_fit():
    text = "".join(f"class {name}:\n    def f(self):\n        return 1\n\n" for name in "ABC")
    body = "-        return 1\n+        return 2\n"
    by_anchor = parse(envelope(f"*** Update File: x\n@@ class B:\n@@     def f(self):\n{body}"))[0].hunks
    by_number = parse(f"--- a/x\n+++ b/x\n@@ -7 +7 @@ class B:\n{body}")[0].hunks
    assert apply("x", text, by_number) == text[:70] + text[70:].replace("return 1", "return 2", 1)
    with pytest.raises(ToolFault, match="fits in"):
        apply("x", text, by_anchor)
    only = parse(envelope(f"*** Update File: x\n@@ class B:\n{body}"))[0].hunks
    assert apply("x", text, only) == text[:70] + text[70:].replace("return 1", "return 2", 1)


@pytest.mark.parametrize(
    ("before", "body", "after"),
    [
        ("a\r\nb\r\n", " a\n-b\n+c\n+d\n", "a\r\nc\r\nd\r\n"),
        ("a\nb", " a\n-b\n+c\n", "a\nc\n"),
        ("a\nb", " a\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n", "a\nc"),
        ("a\nb\n", " a\n-b\n+b\n\\ No newline at end of file\n", "a\nb"),
        ("a\nb", " a\n b\n+c\n", "a\nb\nc\n"),
        ("a\n\nb\n", " a\n\n-b\n+c\n", "a\n\nc\n"),
        ("a\fb\nc\n", "-c\n+d\n", "a\fb\nd\n"),
        ("-- x\n", "--- x\n+++ y\n", "++ y\n"),
    ],
)
def test_line_ends_are_kept(before, body, after):
    assert apply("x", before, parse(f"--- a/x\n+++ b/x\n@@ -1 +1 @@\n{body}")[0].hunks) == after


@given(st.lists(st.sampled_from("abcde"), max_size=12), st.lists(st.sampled_from("abcde"), max_size=12))
@settings(max_examples=examples(400), deadline=None)
def test_what_difflib_writes_can_be_applied(old, new):
    assume(old != new)
    before, after = ("".join(f"{line}\n" for line in lines) for lines in (old, new))
    diff = "".join(difflib.unified_diff(before.splitlines(True), after.splitlines(True), "a/x", "b/x"))
    (file,) = parse(diff)
    assert file.action is Action.UPDATE
    assert apply("x", before, file.hunks) == after


@given(st.text(alphabet="ab \n+-@*\\/", max_size=120))
@settings(max_examples=examples(400), deadline=None)
def test_any_text_is_read_or_refused(text):
    for patch in (text, f"*** Begin Patch\n{text}", f"--- a/x\n+++ b/x\n@@ {text}"):
        with contextlib.suppress(ToolFault):
            for file in parse(patch):
                apply("x", "a\nb\n", file.hunks)


@pytest.mark.skipif(not shutil.which("git"), reason="git is not here")
def test_what_git_diff_writes_can_be_applied(patch, root, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(root, other)
    for place, text in ((root, "one\ntwo\nthree\n"), (other, "one\n2\nthree\nfour")):
        (place / "changed.txt").write_text(text)
    (root / "gone").write_text("x\n")
    (other / "made").write_text("y\n")
    diff = subprocess.run(
        ["git", "diff", "--no-index", "--no-prefix", "repo", "other"], cwd=tmp_path, capture_output=True, text=True
    ).stdout
    for name in ("repo", "other"):
        diff = diff.replace(f" {name}/", " a/" if name == "repo" else " b/")
    reply = patch(diff)
    assert not reply.failed, reply.text
    assert {path.name: path.read_text() for path in root.iterdir()} == {
        path.name: path.read_text() for path in other.iterdir()
    }


def test_a_failure_in_the_middle_puts_everything_back(patch, calc, root, monkeypatch):
    (root / "b.txt").write_text("b\n")
    (root / "c.txt").write_text("c\n")
    put = patching._Tree._put

    def failing(tree, path, file):
        if path == "c.txt":
            raise ToolFault("'c.txt' can't be written: the disk is full")
        put(tree, path, file)

    monkeypatch.setattr(patching._Tree, "_put", failing)
    reply = patch(
        envelope(
            "*** Update File: b.txt\n@@\n-b\n+bb\n*** Add File: a.txt\n+a\n"
            "*** Update File: c.txt\n@@\n-c\n+cc\n*** Delete File: calc.py\n"
        )
    )
    assert reply.text == "nothing was changed: 'c.txt' can't be written: the disk is full"
    assert {path.name: path.read_text() for path in root.iterdir()} == {"b.txt": "b\n", "c.txt": "c\n", "calc.py": CALC}


def test_a_mode_is_kept_and_broken_python_is_noted(patch, calc):
    calc.chmod(0o750)
    reply = patch(UNIFIED.replace("+    return a + b", "+    return a +"))
    assert reply.text == "changed calc.py (+1 -1)\nnote: calc.py does not parse now: line 2: invalid syntax"
    assert calc.stat().st_mode & 0o777 == 0o750


def test_one_file_in_several_parts(patch, calc):
    second = "*** Update File: calc.py\n@@ def sub(a, b):\n-    return a - b\n+    return b\n"
    assert not patch(ENVELOPE.replace("*** End", f"{second}*** End")).failed
    assert calc.read_text() == CALC.replace("a - b", "a + b", 1).replace("a - b", "b")
