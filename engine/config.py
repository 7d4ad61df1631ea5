"""Every setting of an engine, frozen once it has started."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class EngineConfig(BaseModel):
    """Sizes count tokens unless the name says otherwise."""

    model_config = ConfigDict(frozen=True)

    model: str = "smollm2"
    served_name: str | None = None
    host: str = "127.0.0.1"
    port: int = Field(default=8100, ge=0, le=65535)

    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    quant: Literal["auto", "none"] = "auto"
    """`auto` multiplies with 4-bit weights as they are stored, where that measures faster."""
    kernels: Literal["auto", "native", "torch"] = "auto"
    """`auto` compiles the C kernels for this machine where there is a compiler."""
    threads: int | None = Field(default=None, ge=1)
    max_context: int | None = Field(default=None, ge=16)

    kv_tokens: int | None = Field(default=None, ge=64)
    """Capacity of the KV pool; by default a quarter of the free memory, at most 4 GiB."""
    page_size: int = Field(default=1, ge=1)
    step_tokens: int = Field(default=512, ge=1)
    """The budget of one step: decodes first, the rest goes to prompts."""
    step_ms: float = Field(default=200.0, ge=0)
    """About how long a step takes that computes prompts next to running streams; 0: as long as it takes."""
    max_running: int = Field(default=64, ge=1)
    max_waiting: int = Field(default=1024, ge=1)
    max_body_bytes: int = Field(default=32 * 1024 * 1024, ge=1024)
    jump_forward: bool = True
    """Don't sample what a grammar leaves no choice about."""
    drafts: bool = True
    """Guess tokens from what was seen before and verify them in the same step; the output stays the same."""
    check_every_step: bool = False
    """Recompute every counter of the cache after each step (slow; for tests and bug hunts)."""
