"""What tests of several packages share, and what lets two workers run them side by side."""

from __future__ import annotations

import functools
import os
import ssl

import pytest

from tests.examples import register_profiles

if "PYTEST_XDIST_WORKER" in os.environ:
    # Before torch is imported, here and in what tests start: more threads, or such as wait in a spin, would take the
    # other worker's core. Tests of kernels say how many threads they want (`two_threads`).
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")

register_profiles()


def pytest_collection_modifyitems(items):
    """The soak takes a minute whatever the machine: begun last it would keep one of two workers waiting."""
    items.sort(key=lambda item: "soak" not in item.path.parts)


@pytest.fixture(scope="session", autouse=True)
def _certificates_read_once():
    """Each HTTP client reads all authorities anew, 40 ms: half of a small test. None speaks TLS to anyone outside."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", functools.cache(ssl.create_default_context))
        yield


@pytest.fixture(scope="session")
def smollm2_path():
    """The embedded model; `make model` has fetched it."""
    from engine.weights.source import home_folder, resolve

    return resolve("smollm2", home_folder())


@pytest.fixture(scope="session")
def bare_pytest():
    """Runs of pytest in a sandbox load no plugins of this environment, which is most of the time of a small run."""
    from tools import testing

    plugins = ("anyio", "hypothesispytest", "timeout", "valkey", "xdist", "xdist.looponfail")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(testing, "_OPTIONS", (*testing._OPTIONS, *(f"-pno:{name}" for name in plugins)))
        yield
