"""Anthropic's own client against the dialect, in process: what it makes of answers, streams and errors."""

from __future__ import annotations

import json

import anthropic
import httpx2
import pytest
from starlette.applications import Starlette
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from gateway.dialects.messages.errors import error_body
from gateway.dialects.messages.translator import Messages
from gateway.dialects.translate import Failure
from tests.gateway.dialects.messages.saying import BODY, answer, call, chunked, without_id

ANSWER = answer("I look.", "Where is it?", [call(1, {"command": "ls ü"}), call(2, {"command": "pwd"})])
BUSY = Failure(503, "all replicas are busy", "no_replica")


def serve(behave):
    """An app that answers each request as `behave(exchange)` says, and the client for it."""

    async def messages(request):
        return behave(Messages().exchange(await request.json()))

    app = Starlette(routes=[Route("/v1/messages", messages, methods=["POST"])])
    http = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app))
    return anthropic.AsyncAnthropic(api_key="k", base_url="http://gateway", http_client=http, max_retries=0)


def answering(exchange):
    if not exchange.stream:
        return Response(exchange.answer.whole(ANSWER), media_type="application/json")

    async def told():
        yield exchange.answer.heartbeat()
        for chunk in chunked(ANSWER, lambda text: [text[at : at + 3] for at in range(0, len(text), 3)]):
            yield exchange.answer.chunk(chunk)
        yield exchange.answer.end()

    return StreamingResponse(told(), media_type="text/event-stream")


@pytest.mark.anyio
async def test_the_client_reads_the_same_from_both_forms():
    client = serve(answering)
    whole = await client.messages.create(**BODY)
    async with client.messages.stream(**BODY) as stream:
        told = await stream.get_final_message()
    assert without_id(told.to_dict(warnings=False)) == without_id(whole.to_dict())
    assert [block.type for block in whole.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert whole.content[2].input == {"command": "ls ü"}
    assert (whole.stop_reason, whole.usage.input_tokens, whole.usage.cache_read_input_tokens) == ("tool_use", 10, 90)


@pytest.mark.anyio
async def test_the_beta_client_reads_it_too():
    client = serve(answering)
    async with client.beta.messages.stream(**BODY, betas=["interleaved-thinking-2025-05-14"]) as stream:
        told = await stream.get_final_message()
    assert told.content[0].thinking == "Where is it?"
    assert told.content[3].input == {"command": "pwd"}


@pytest.mark.anyio
async def test_an_error_within_a_stream_reaches_the_caller():
    def breaking(exchange):
        async def told():
            yield exchange.answer.chunk({"choices": [{"delta": {"content": "a"}}]})
            yield exchange.answer.fail(BUSY)

        return StreamingResponse(told(), media_type="text/event-stream")

    async with serve(breaking).messages.stream(**BODY) as stream:
        with pytest.raises(anthropic.APIStatusError, match="all replicas are busy") as caught:
            await stream.get_final_message()
    assert caught.value.body["error"]["type"] == "overloaded_error"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("status", "kind", "error"),
    [
        (400, "invalid_request_error", anthropic.BadRequestError),
        (401, "authentication_error", anthropic.AuthenticationError),
        (403, "permission_error", anthropic.PermissionDeniedError),
        (404, "not_found_error", anthropic.NotFoundError),
        (413, "request_too_large", anthropic.APIStatusError),
        (422, "invalid_request_error", anthropic.APIStatusError),
        (429, "rate_limit_error", anthropic.RateLimitError),
        (500, "api_error", anthropic.InternalServerError),
        (502, "api_error", anthropic.InternalServerError),
        (503, "overloaded_error", anthropic.APIStatusError),
        (504, "timeout_error", anthropic.APIStatusError),
    ],
)
async def test_errors_have_the_types_that_the_client_knows(status, kind, error):
    body = Messages().error(Failure(status, "why", "code"))
    client = serve(lambda _: Response(body, status, media_type="application/json"))
    with pytest.raises(error) as caught:
        await client.messages.create(**BODY)
    assert caught.value.status_code == status
    assert caught.value.body["error"] == {"type": kind, "message": "why"}


SUM = "input length and `max_tokens` exceed context limit: 4000 + 500 > 4096, decrease input length or `max_tokens`"
OVER = "However, your messages resulted in 5000 tokens. Please reduce the length of the messages or completion."


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            f"This model's maximum context length is 4096 tokens. {OVER}",
            "prompt is too long: 5000 tokens > 4096 maximum",
        ),
        (
            f"This model's maximum context length is 4,096 tokens. {OVER}",
            "prompt is too long: 5000 tokens > 4096 maximum",
        ),
        (
            f"This model's maximum context length is 4096 tokens. {OVER.replace('5000', 'at least 5000')}",
            "prompt is too long: 5000 tokens > 4096 maximum",
        ),
        (
            "The request (5000 tokens) exceeds the available context size (4096 tokens)",
            "prompt is too long: 5000 tokens > 4096 maximum",
        ),
        (
            "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
            "prompt is too long: 5000 tokens > 4096 maximum",
        ),
        (
            "maximum context length is 4096 tokens, you requested 4500 (4000 in the messages, 500 in the completion)",
            SUM,
        ),
        (
            "max_tokens is too large: 500. The maximum context length is 4096 tokens and you have 4000 input tokens",
            SUM,
        ),
        ("It is too much.", "prompt is too long: It is too much."),
    ],
)
def test_a_prompt_that_is_too_long_is_told_in_the_words_that_clients_know(message, told):
    error = json.loads(error_body(Failure(400, message, "context_length_exceeded")))["error"]
    assert error == {"type": "invalid_request_error", "message": told}
