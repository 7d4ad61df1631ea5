from __future__ import annotations

from types import SimpleNamespace

import anyio

from agents.servers.call import call
from agents.servers.life import Life
from tests.agents.servers.conftest import plain


class Deaf:
    """A connection of which it is known that it ended, but whose library never answers."""

    def __init__(self) -> None:
        self.config, self.life, self.trouble = plain(), Life(), ""
        self.offers = SimpleNamespace(listing={"run": None})
        self.client = SimpleNamespace(session=self)

    async def reach(self) -> bool:
        return True

    async def send_request(self, *given: object, **more: object) -> object:
        self.life.end("it is gone")
        return await anyio.sleep_forever()


def test_a_call_does_not_rely_on_the_library_to_learn_of_the_end():
    async def main():
        with anyio.fail_after(5):
            return await call(Deaf(), "run", {}, print)

    result = anyio.run(main)
    assert result.is_error
    assert result.text.startswith("The server p went away in the middle of this call")
