"""Compiles the Python files named on its command line and writes what is wrong as JSON, one diagnostic a line."""

from __future__ import annotations

import json
import sys
import warnings


def diagnose(path: str) -> list[dict[str, object]]:
    """What the compiler says about one file. Nothing is executed or written."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with open(path, "rb") as file:
                compile(file.read(), path, "exec", dont_inherit=True)
        except SyntaxError as error:
            return [_row(path, error.lineno, error.offset, "error", f"{type(error).__name__}: {error.msg}")]
        except (OSError, ValueError, RecursionError, MemoryError) as error:
            return [_row(path, 1, 1, "error", f"{type(error).__name__}: {error}")]
    return [_row(path, warning.lineno, 1, "warning", str(warning.message)) for warning in caught]


def _row(path: str, line: int | None, column: int | None, severity: str, message: str) -> dict[str, object]:
    return {"file": path, "line": line or 1, "column": column or 1, "severity": severity, "message": message}


if __name__ == "__main__":
    for name in sys.argv[1:]:
        for row in diagnose(name):
            print(json.dumps(row))
