"""A simulated replica with an honest prefix cache: what it says of cached tokens is what it held.

    python -m benchmarks.agent_replica --port 8101

Four bytes are a token. The cache is a trie over blocks of tokens, each known by the hash of all up to it; prompt and
answer are stored, nothing is evicted. It announces a new epoch with each start, and ends what is under way before it
ends.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import uuid
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

BYTES_PER_TOKEN = 4
BLOCK_TOKENS = 4
ANSWER_S = 0.02


class PrefixCache:
    def __init__(self) -> None:
        self._known: set[bytes] = set()

    def held_tokens(self, text: bytes) -> int:
        """How much of the text it holds; at least one token is always computed."""
        count = 0
        for digest in _digests(text[:-BYTES_PER_TOKEN]):
            if digest not in self._known:
                break
            count += 1
        return count * BLOCK_TOKENS

    def store(self, text: bytes) -> None:
        self._known.update(_digests(text))


def _digests(text: bytes) -> Sequence[bytes]:
    size, found, state = BLOCK_TOKENS * BYTES_PER_TOKEN, [], blake2b(digest_size=16)
    for start in range(0, len(text) - size + 1, size):
        state.update(text[start : start + size])
        found.append(state.digest())
    return found


def rendered(body: dict[str, Any]) -> bytes:
    """Tools and messages as a template would print them: without ids."""
    lines = [json.dumps(body.get("tools", []), sort_keys=True)]
    for message in body["messages"]:
        calls = [call["function"] for call in message.get("tool_calls", ())]
        lines.append(f"<{message['role']}>{message.get('content') or ''}{json.dumps(calls) if calls else ''}")
    return "\n".join(lines).encode()


def answer_to(body: dict[str, Any]) -> dict[str, Any]:
    """A tool call whose arguments are a function of the history."""
    mark = blake2b(rendered(body), digest_size=8).hexdigest()
    function = {"name": "read_file", "arguments": json.dumps({"path": f"src/{mark}.py"})}
    call = {"id": f"call_{uuid.uuid4().hex[:8]}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def create_app() -> Any:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    cache, epoch = PrefixCache(), uuid.uuid4().hex

    async def health(_: Request) -> JSONResponse:
        return JSONResponse({})

    async def info(_: Request) -> JSONResponse:
        return JSONResponse({"epoch": epoch, "offers": []})

    async def models(_: Request) -> JSONResponse:
        return JSONResponse({"object": "list", "data": [{"id": "m", "object": "model"}]})

    async def chat(request: Request) -> JSONResponse:
        body = await request.json()
        prompt = rendered(body)
        held = cache.held_tokens(prompt)
        await asyncio.sleep(ANSWER_S)
        message = answer_to(body)
        whole = rendered({**body, "messages": [*body["messages"], message]})
        cache.store(whole)
        usage = {
            "prompt_tokens": len(prompt) // BYTES_PER_TOKEN,
            "completion_tokens": (len(whole) - len(prompt)) // BYTES_PER_TOKEN,
            "total_tokens": len(whole) // BYTES_PER_TOKEN,
            "prompt_tokens_details": {"cached_tokens": held},
        }
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        said = {"object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}
        return JSONResponse(said, headers={"x-sapwood-epoch": epoch})

    routes = [Route("/health", health), Route("/info", info), Route("/v1/models", models)]
    return Starlette(routes=[*routes, Route("/v1/chat/completions", chat, methods=["POST"])])


def main() -> None:
    import uvicorn

    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--port", type=int, required=True)
    uvicorn.run(create_app(), host="127.0.0.1", port=options.parse_args().port, log_level="warning")


if __name__ == "__main__":
    main()
