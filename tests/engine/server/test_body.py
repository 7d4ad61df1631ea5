"""A fault in a body is named by the path that the client wrote."""

from __future__ import annotations

import pytest

from engine.errors import RequestError
from engine.server.body import validate
from engine.server.wire import ChatRequest, CompletionRequest


@pytest.mark.parametrize(
    ("model", "fields", "param"),
    [
        (ChatRequest, {"stop": 5}, "stop"),
        (ChatRequest, {"stop": ["a", 5]}, "stop.1"),
        (ChatRequest, {"response_format": {"type": "x"}}, "response_format.type"),
        (ChatRequest, {"response_format": {}}, "response_format.type"),
        (ChatRequest, {"structured_outputs": {"choice": ["a", 3]}}, "structured_outputs.choice.1"),
        (ChatRequest, {"structured_outputs": {"json": 3}}, "structured_outputs.json"),
        (ChatRequest, {"stop_token_ids": [1, -1]}, "stop_token_ids.1"),
        (ChatRequest, {"logit_bias": {"7": "x"}}, "logit_bias.7"),
        (ChatRequest, {"json_schema": 3}, "json_schema"),
        (CompletionRequest, {"prompt": {}}, "prompt"),
        (CompletionRequest, {"prompt": [[1, -2]]}, "prompt.0.1"),
        (CompletionRequest, {}, "prompt"),
    ],
    ids=str,
)
def test_the_param_is_the_client_s_own_path(model, fields, param):
    body = {"messages": [], **fields} if model is ChatRequest else fields
    with pytest.raises(RequestError) as refused:
        validate(model, body)
    assert refused.value.param == param
    assert f"for {param}:" in refused.value.message
