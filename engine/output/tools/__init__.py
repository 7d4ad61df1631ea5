"""How a model writes tool calls: one format per file, and the choice between them."""

from __future__ import annotations

from engine.output.tools.base import ToolFormat
from engine.output.tools.deepseek import CALLS_BEGIN, DeepSeekFormat
from engine.output.tools.fence import FenceFormat
from engine.output.tools.hermes import OPEN, HermesFormat
from engine.output.tools.llama import PYTHON_TAG, LlamaFormat
from engine.output.tools.mistral import ARGS, TOOL_CALLS, MistralFormat
from engine.output.tools.qwen_xml import FUNCTION, QwenXmlFormat


def format_for(template: str) -> ToolFormat:
    """The format that a chat template's model was trained on; Sapwood's own where it was trained on none."""
    if CALLS_BEGIN in template:
        return DeepSeekFormat(fenced="```json" in template)
    if TOOL_CALLS in template:
        return MistralFormat(named=ARGS in template, space=" " if f"{TOOL_CALLS} [" in template else "")
    if OPEN in template:
        return QwenXmlFormat() if FUNCTION in template else HermesFormat()
    if PYTHON_TAG in template or ("<|start_header_id|>" in template and '"parameters": ' in template):
        return LlamaFormat()
    return FenceFormat()
