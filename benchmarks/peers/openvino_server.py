"""A minimal OpenAI server over OpenVINO GenAI. Run by the peer's own Python: it imports nothing of this repository.

One thread owns the pipeline; the event loop hands it requests and receives texts. Chat templates, stop words and the
like are left out: the benchmark needs greedy streams of a fixed length.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import queue
import sys
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Post = Callable[["Delta"], None]


@dataclass(frozen=True)
class Delta:
    """What a step added to an answer; counts come with the last one."""

    text: str
    done: bool
    prompt: int = 0
    completion: int = 0
    error: str | None = None


@dataclass
class Stream:
    """One request under way. `text` is what the client has."""

    handle: Any
    post: Post
    prompt: int
    ids: list[int] = field(default_factory=list)
    text: str = ""


class Runner:
    """The thread that steps the pipeline while there is something to do."""

    def __init__(self, model: Path, kv_gib: int, threads: int) -> None:
        import openvino_genai as genai  # type: ignore[import-not-found, unused-ignore]

        scheduler = genai.SchedulerConfig()
        scheduler.cache_size = kv_gib
        scheduler.enable_prefix_caching = True
        scheduler.dynamic_split_fuse = True
        self._genai = genai
        self._pipeline = genai.ContinuousBatchingPipeline(
            str(model), scheduler, "CPU", {"INFERENCE_NUM_THREADS": threads}
        )
        self._tokenizer = self._pipeline.get_tokenizer()
        self._inbox: queue.SimpleQueue[tuple[str, int, Post]] = queue.SimpleQueue()
        self._streams: list[Stream] = []
        self._numbers = itertools.count()
        threading.Thread(target=self._run, daemon=True).start()

    def submit(self, prompt: str, tokens: int, post: Post) -> None:
        self._inbox.put((prompt, tokens, post))

    def _run(self) -> None:
        while True:
            self._take()
            try:
                self._pipeline.step()
            except Exception as error:
                self._fail(f"{type(error).__name__}: {error}")
            else:
                self._streams = [stream for stream in self._streams if not self._read(stream)]

    def _take(self) -> None:
        """All that has arrived; waits for it when nothing runs."""
        block = not self._streams
        while True:
            try:
                prompt, tokens, post = self._inbox.get(block=block)
            except queue.Empty:
                return
            self._add(prompt, tokens, post)
            block = False

    def _add(self, prompt: str, tokens: int, post: Post) -> None:
        config = self._genai.GenerationConfig()
        config.max_new_tokens = config.min_new_tokens = tokens
        config.ignore_eos, config.do_sample = True, False
        ids = self._tokenizer.encode(prompt, add_special_tokens=False).input_ids
        handle = self._pipeline.add_request(next(self._numbers), ids, config)
        self._streams.append(Stream(handle, post, int(ids.shape[1])))

    def _read(self, stream: Stream) -> bool:
        """Hands on what is new; True when the stream has ended. Half a character waits for its other half."""
        if stream.handle.can_read():
            for output in stream.handle.read().values():
                stream.ids += output.generated_ids
        done = stream.handle.get_status() != self._genai.GenerationStatus.RUNNING and not stream.handle.can_read()
        whole = self._tokenizer.decode(stream.ids, skip_special_tokens=True) if stream.ids else ""
        new = whole[len(stream.text) :]
        if new.endswith("\ufffd") and not done:
            new = ""
        stream.text += new
        if new or done:
            stream.post(Delta(new, done, stream.prompt, len(stream.ids)))
        return done

    def _fail(self, message: str) -> None:
        for stream in self._streams:
            stream.post(Delta("", True, error=message))
        self._streams = []


def chat_prompt(messages: list[dict[str, str]]) -> str:
    """ChatML, as the model's own template writes it."""
    turns = "".join(f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n" for message in messages)
    return f"{turns}<|im_start|>assistant\n"


def create_app(runner: Runner, model: str) -> Any:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, StreamingResponse
    from starlette.routing import Route

    async def health(_: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    async def models(_: Request) -> JSONResponse:
        return JSONResponse({"object": "list", "data": [{"id": model, "object": "model"}]})

    async def chat(request: Request) -> StreamingResponse:
        body = await request.json()
        loop, mailbox = asyncio.get_running_loop(), asyncio.Queue[Delta]()

        def post(delta: Delta) -> None:
            loop.call_soon_threadsafe(mailbox.put_nowait, delta)

        runner.submit(chat_prompt(body["messages"]), int(body["max_tokens"]), post)
        return StreamingResponse(_events(mailbox, model), media_type="text/event-stream")

    return Starlette(
        routes=[
            Route("/health", health),
            Route("/v1/models", models),
            Route("/v1/chat/completions", chat, methods=["POST"]),
        ]
    )


async def _events(mailbox: asyncio.Queue[Delta], model: str) -> AsyncIterator[str]:
    while True:
        delta = await mailbox.get()
        if delta.error is not None:
            yield f"data: {json.dumps({'error': {'message': delta.error}})}\n\n"
            return
        if delta.text:
            yield _chunk(model, {"content": delta.text}, None)
        if delta.done:
            yield _chunk(model, {}, "length")
            counts = {"prompt_tokens": delta.prompt, "completion_tokens": delta.completion}
            yield f"data: {json.dumps({'model': model, 'choices': [], 'usage': counts})}\n\ndata: [DONE]\n\n"
            return


def _chunk(model: str, delta: dict[str, str], finish: str | None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps({'model': model, 'choices': [choice]})}\n\n"


def main() -> None:
    import uvicorn

    model, port, kv_gib, threads = sys.argv[1:5]
    path = Path(model)
    app = create_app(Runner(path, int(kv_gib), int(threads)), path.stem)
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="warning")


if __name__ == "__main__":
    main()
