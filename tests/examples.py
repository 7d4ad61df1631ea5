"""How many examples hypothesis tries: some in `make test`, all in `make test-all`."""

from __future__ import annotations

from hypothesis import settings

SHARE_OF_A_SHORT_RUN = 4


def register_profiles() -> None:
    """`short` unless `--hypothesis-profile=full` says otherwise. No deadline: a busy machine is not a slow test."""
    settings.register_profile("short", deadline=None)
    settings.register_profile("full", deadline=None)
    settings.load_profile("short")


def examples(full: int) -> int:
    """`full` of them, or a quarter in a short run, which draws others each time; for tests that take seconds."""
    whole = settings.get_current_profile_name() == "full"
    return full if whole else full // SHARE_OF_A_SHORT_RUN
