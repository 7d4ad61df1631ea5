"""OpenAI's own client against the bytes of this dialect, in process."""

from __future__ import annotations

import json

import httpx
import openai
import pytest
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from gateway.dialects.responses.dialect import Responses
from gateway.dialects.translate import Failure
from gateway.errors import GatewayError
from tests.gateway.dialects.responses.speaking import TOOLS, answer, call, chunked, letters

SAID = answer('{"n": 3}', "hm", [call(1, '{"cmd": "ls"}'), call(2, "{}", "mcp__find")])


class Number(BaseModel):
    n: int


async def serve(request):
    try:
        exchange = Responses().exchange(await request.json())
    except GatewayError as error:
        failure = Failure(error.status, error.message, error.code, error.param)
        return Response(Responses().error(failure), error.status, media_type="application/json")
    writer = exchange.answer
    if not exchange.stream:
        return Response(writer.whole(SAID), media_type="application/json")
    raw = writer.heartbeat() + b"".join(map(writer.chunk, chunked(SAID, letters))) + writer.end()
    return Response(raw, media_type="text/event-stream")


@pytest.fixture
async def client():
    app = Starlette(routes=[Route("/v1/responses", serve, methods=["POST"])])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as http:
        yield openai.AsyncOpenAI(api_key="k", base_url="http://gateway/v1", http_client=http, max_retries=0)


def check(response):
    assert [item.type for item in response.output] == ["reasoning", "message", "function_call", "function_call"]
    assert response.output_text == '{"n": 3}'
    assert response.output_parsed == Number(n=3)
    assert json.loads(response.output[2].arguments) == {"cmd": "ls"}
    assert (response.output[3].namespace, response.output[3].name) == ("mcp", "find")
    assert response.usage.input_tokens_details.cached_tokens == 90


@pytest.mark.anyio
async def test_plain(client):
    check(await client.responses.parse(model="m", input="go", tools=TOOLS, text_format=Number))


@pytest.mark.anyio
async def test_streamed(client):
    async with client.responses.stream(model="m", input="go", tools=TOOLS, text_format=Number) as stream:
        told = "".join([event.delta async for event in stream if event.type == "response.output_text.delta"])
        check(await stream.get_final_response())
    assert told == '{"n": 3}'


@pytest.mark.anyio
async def test_refused(client):
    with pytest.raises(openai.BadRequestError) as caught:
        await client.responses.create(model="m", input="go", previous_response_id="resp_1")
    assert (caught.value.code, caught.value.param) == ("unsupported_parameter", "previous_response_id")
