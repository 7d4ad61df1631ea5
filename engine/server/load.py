"""From a configuration to a service: read the model, size the KV pool, build every part."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from engine.attention.kv import KVTensors
from engine.config import EngineConfig
from engine.core import Engine
from engine.errors import StartError
from engine.model import load_decoder
from engine.model.base import Decoder
from engine.model.calibration import Calibration
from engine.model.dtype import choose_dtype
from engine.output.dialect import dialect_of
from engine.prompt.template import ChatTemplate, load_chat_template
from engine.prompt.tokenizer import load_tokenizer
from engine.prompt.transcript import Transcript
from engine.sample.grammar import GrammarCompiler
from engine.server.generation import Dispatcher
from engine.server.metrics import Metrics
from engine.server.prepare import Limits, Preparer
from engine.server.service import Service
from engine.weights.checkpoint import Checkpoint, open_checkpoint
from engine.weights.source import home_folder, resolve

KV_BYTES_AT_MOST = 4 * 1024**3
KV_SHARE_OF_FREE_MEMORY = 0.25
TRANSCRIPT_TOKENS = 1_000_000

# For base models, which come without a template.
PLAIN_CHAT = (
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def load_service(config: EngineConfig) -> Service:
    """Raises StartError, in one line, for whatever keeps the engine from starting.

    It loads on a thread that ends: OpenMP keeps a pool for every thread that has computed, and a second pool
    beside that of the engine thread would halve the speed of both.
    """
    with ThreadPoolExecutor(1, "load") as loader:
        return loader.submit(_load, config).result()


def _load(config: EngineConfig) -> Service:
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    checkpoint = open_checkpoint(resolve(config.model, home_folder()))
    dtype = choose_dtype(config.dtype)
    calibration = Calibration(home_folder() / "calibration.json") if config.quant == "auto" else None
    decoder = load_decoder(checkpoint, dtype, calibration)
    if calibration is not None:
        calibration.save()
    engine = _engine(config, decoder, dtype)
    tokenizer = load_tokenizer(checkpoint.metadata, checkpoint.folder)
    source = load_chat_template(checkpoint.metadata, checkpoint.folder) or PLAIN_CHAT
    dialect = dialect_of(source)
    transcript = Transcript(TRANSCRIPT_TOKENS)
    limits = Limits(
        min(config.max_context or decoder.config.max_context, decoder.config.max_context),
        engine.cache.capacity,
    )
    preparer = Preparer(
        tokenizer,
        ChatTemplate(source, tokenizer.bos, tokenizer.eos, dialect.tools),
        dialect,
        GrammarCompiler(tokenizer, decoder.config.vocab_size, tokenizer.eos_ids, shown=dialect.markers),
        limits,
        transcript,
    )
    return Service(
        config=config,
        model=config.served_name or _public_name(config.model, checkpoint),
        engine=engine,
        preparer=preparer,
        transcript=transcript,
        dispatcher=Dispatcher(engine, config.max_waiting),
        metrics=Metrics(engine, transcript),
    )


def _public_name(asked: str, checkpoint: Checkpoint) -> str:
    """A known name or hub id serves as the model's name; a path does not."""
    return checkpoint.name if Path(asked).exists() else asked


def _engine(config: EngineConfig, decoder: Decoder, dtype: torch.dtype) -> Engine:
    per_token = KVTensors.bytes_per_slot(decoder.config, dtype)
    tokens = config.kv_tokens or _affordable(per_token)
    return Engine(
        decoder,
        kv_tokens=tokens - tokens % config.page_size,
        dtype=dtype,
        page_size=config.page_size,
        step_tokens=config.step_tokens,
        step_seconds=config.step_ms / 1000,
        max_running=config.max_running,
        drafts=config.drafts,
        jump_forward=config.jump_forward,
        kernels=config.kernels,
        check_every_step=config.check_every_step,
    )


def _affordable(bytes_per_token: int) -> int:
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    tokens = int(min(KV_BYTES_AT_MOST, free * KV_SHARE_OF_FREE_MEMORY) // bytes_per_token)
    if tokens < 256:
        raise StartError(f"only {free // 2**20} MiB of memory are free; close something or set --kv-tokens")
    return tokens
