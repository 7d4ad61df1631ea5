"""From flags, environment and file to the one configuration, in that order of precedence, with exact complaints."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from gateway.config import GatewayConfig
from gateway.config_pools import PoolConfig
from gateway.errors import StartError
from gateway.routing.rules import Rule

ENV_PREFIX = "SAPWOOD_GATEWAY_"
ENV_NAMES = {"SAPWOOD_TENANT_SECRET": "tenant_secret"}
"""Variables by names of their own."""
TABLES = ("queue", "breaker")
LISTS = {"pool": "pools", "route": "routes"}
"""What a file's `[[pool]]` and `[[route]]` are called inside."""
LISTED = ("upstreams", "cors_origins")
"""Settings that are several, with commas between them in a variable."""
_MODELS: Mapping[str, type[BaseModel]] = {"pool": PoolConfig, "route": Rule}
_WORDS = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "a table",
    "float_parsing": "a number",
    "float_type": "a number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "mapping_type": "a table",
    "model_type": "a table",
    "string_type": "a string",
    "tuple_type": "a list",
}
"""For a file's reader, where pydantic speaks of Python's types."""
_LINKED_PORT = re.compile(r"tcp://")
"""What Kubernetes puts into `…_PORT` for a service that happens to be named like this command."""


@dataclass(frozen=True, slots=True)
class Setting:
    value: Any
    source: str
    """For a person: a flag, a variable's name, a file's path."""


Settings = dict[str, Setting]
"""By dotted path (`queue.length`); a list of tables is one setting."""


@dataclass(frozen=True, slots=True)
class Loaded:
    config: GatewayConfig
    sources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the configuration comes from; it can be read again at any time."""

    flags: Mapping[str, Setting]
    environment: Mapping[str, str]
    file: Path | None

    def load(self) -> Loaded:
        """StartError, in one line, for whatever is wrong."""
        settings = {
            **(_from_file(self.file) if self.file else {}),
            **_from_environment(self.environment),
            **self.flags,
        }
        sources = {path: setting.source for path, setting in settings.items()}
        try:
            config = GatewayConfig.model_validate(_nested(settings))
        except ValidationError as error:
            raise StartError(_complaint(error, sources)) from None
        _check_credentials(config, self.environment, sources)
        return Loaded(config, sources)


def origin(flags: Mapping[str, Setting], file: str | None) -> Origin:
    named = file or os.environ.get(f"{ENV_PREFIX}CONFIG") or None
    return Origin(flags, os.environ, Path(named).expanduser() if named else None)


def _from_file(path: Path) -> Settings:
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StartError(f"can't read the configuration {path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise StartError(f"{path}: is not UTF-8 (byte {error.start})") from None
    except tomllib.TOMLDecodeError as error:
        raise StartError(f"{path}: is no TOML: {error}") from None
    settings: Settings = {}
    for name, value in told.items():
        if name in TABLES and isinstance(value, dict):
            settings |= {f"{name}.{key}": Setting(inner, str(path)) for key, inner in value.items()}
        elif name in LISTS.values():  # the inside's word, which a file does not use
            raise StartError(f"{path}: {name}: no such setting; write [[{name.removesuffix('s')}]]")
        else:
            settings[LISTS.get(name, name)] = Setting(value, str(path))
    return settings


def _from_environment(environment: Mapping[str, str]) -> Settings:
    """Only what is a setting: a prefix is no fence, and other programs may use it too."""
    settings: Settings = {}
    for variable, path in [*ENV_NAMES.items(), *((_variable(path), path) for path in plain_paths())]:
        told = environment.get(variable)
        if told is None or (path == "port" and _LINKED_PORT.match(told)):
            continue
        items = [item.strip() for item in told.split(",") if item.strip()]
        settings[path] = Setting(items if path in LISTED else told, f"${variable}")
    return settings


def plain_paths() -> Sequence[str]:
    """Dotted paths of all settings but the lists of tables."""
    paths: list[str] = []
    for name, info in GatewayConfig.model_fields.items():
        if name in TABLES:
            assert isinstance(info.annotation, type)
            assert issubclass(info.annotation, BaseModel)
            paths += [f"{name}.{inner}" for inner in info.annotation.model_fields]
        elif name not in LISTS.values():
            paths.append(name)
    return paths


def _variable(path: str) -> str:
    return ENV_PREFIX + path.replace(".", "__").upper()


def _nested(settings: Mapping[str, Setting]) -> dict[str, Any]:
    whole: dict[str, Any] = {}
    for path, setting in settings.items():
        table, dot, name = path.partition(".")
        if dot:
            whole.setdefault(table, {})[name] = setting.value
        else:
            whole[path] = setting.value
    return whole


def _complaint(error: ValidationError, sources: Mapping[str, str]) -> str:
    """The first fault as `source: path: what is wrong`; misspelt names first, as they often cause the others."""
    faults = sorted(error.errors(), key=lambda fault: fault["type"] != "extra_forbidden")
    fault = faults[0]
    loc, told = fault["loc"], str(fault["msg"])
    shown = _shown(loc)
    message = told.removeprefix("Value error, ")
    if fault["type"] == "extra_forbidden":
        message = f"no such setting{_nearest(loc)}"
    elif fault["type"] in _WORDS or told.startswith("Input should be "):
        wanted = _WORDS.get(fault["type"]) or told.removeprefix("Input should be ")
        message = f"must be {wanted}, not {_excerpt(fault['input'], shown)}"
    elif fault["type"] == "missing":
        message = "is missing"
    return ": ".join(part for part in (_source(loc, message, sources), shown, message) if part)


def _source(loc: Sequence[int | str], message: str, sources: Mapping[str, str]) -> str:
    """Who said it. A misfit between settings has no place of its own: its message begins with one of them."""
    if not loc:
        named = re.split(r"[\[:.]", message, maxsplit=1)[0]
        loc = [LISTS.get(named, named)]
    return sources.get(".".join(map(str, loc[:2])), sources.get(str(loc[0]), ""))


def _shown(loc: Sequence[int | str]) -> str:
    """`pool[1].policy`, as a file has it."""
    outside = {inside: name for name, inside in LISTS.items()}
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{outside.get(part, part) if not text else part}"
    return text.removeprefix(".")


def _nearest(loc: Sequence[int | str]) -> str:
    model = _MODELS.get(_shown(loc[:1]), GatewayConfig)
    names = list(model.model_fields) if model is not GatewayConfig else [_shown([name]) for name in model.model_fields]
    if loc[0] in TABLES and len(loc) > 1:
        names = [path.partition(".")[2] for path in plain_paths() if path.startswith(f"{loc[0]}.")]
    close = difflib.get_close_matches(str(loc[-1]), names, n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else f": there are {', '.join(sorted(names))}"


def _excerpt(value: Any, path: str) -> str:
    return "what it is" if "secret" in path or path.endswith("_key") else repr(value)[:80]


def _check_credentials(config: GatewayConfig, environment: Mapping[str, str], sources: Mapping[str, str]) -> None:
    for index, pool in enumerate(config.pools):
        key = environment.get(pool.api_key_env) if pool.api_key_env else "none is needed"
        where = f"{sources.get('pools', 'pools')}: pool[{index}].api_key_env"
        if not key:
            raise StartError(f"{where}: the environment has no variable {pool.api_key_env}")
        if not (key.isascii() and key.isprintable()):
            raise StartError(f"{where}: {pool.api_key_env} has characters that no header can hold")
