"""`sapwood gateway --check`: the effective configuration as a file would say it, each setting with its source."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, SecretStr

from gateway.config import GatewayConfig
from gateway.config_file import LISTS, TABLES, Loaded
from gateway.config_urls import masked

MASK = "***"


def show(loaded: Loaded) -> str:
    """TOML, so that it can be the start of a file; secrets are masked."""
    return "\n".join(_lines(loaded.config, loaded.sources)) + "\n"


def _lines(config: GatewayConfig, sources: Mapping[str, str]) -> Iterator[str]:
    for name in GatewayConfig.model_fields:
        if name not in TABLES and name not in LISTS.values():
            yield _line(name, getattr(config, name), sources.get(name, "default"))
    for table in TABLES:
        yield f"\n[{table}]"
        for name, value in getattr(config, table):
            yield _line(name, value, sources.get(f"{table}.{name}", "default"))
    for outside, inside in LISTS.items():
        for entry in getattr(config, inside):
            yield f"\n[[{outside}]]  # {sources.get(inside, 'default')}"
            yield from (_line(name, value, "") for name, value in _given(entry))


def _given(entry: BaseModel) -> Iterator[tuple[str, Any]]:
    for name, value in entry:
        if name in entry.model_fields_set or value not in (None, (), {}):
            yield name, list(value) if name == "pools" and None in value.values() else value


def _line(name: str, value: Any, source: str) -> str:
    comment = f"  # {source}" if source else ""
    if value is None:
        return f"# {name} is not set"
    if isinstance(value, SecretStr):
        return f'{name} = "{MASK}"{comment}'
    return f"{name} = {_toml(masked(value) if name == 'redis_url' else value)}{comment}"


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)
