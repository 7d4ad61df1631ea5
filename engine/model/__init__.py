"""Decoders and the factory that picks one. torch is imported only when a model is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.model.config import require_supported

if TYPE_CHECKING:
    import torch

    from engine.model.base import Decoder
    from engine.model.calibration import Calibration
    from engine.model.few import FewRows
    from engine.model.llama import LlamaDecoder
    from engine.weights.checkpoint import Checkpoint


def load_decoder(checkpoint: Checkpoint, dtype: torch.dtype, calibration: Calibration | None = None) -> Decoder:
    """The checkpoint's decoder with weights and activations in `dtype` (float32 or bfloat16).

    With a `calibration`, weights that are stored in 4 or 8 bits are multiplied as such where that is faster.
    """
    require_supported(checkpoint.config.architecture, checkpoint.name)
    from engine.model.few import ByRowsDecoder, has_kernel, measured_limit
    from engine.model.llama import LlamaDecoder

    if calibration is None or not has_kernel():  # known before anything is read: the weights are read once
        return LlamaDecoder(checkpoint.config, checkpoint, dtype, calibration)
    many = LlamaDecoder(checkpoint.config, checkpoint, dtype)
    few = _few_rows(checkpoint, many)
    if few is not None and (limit := measured_limit(few, many, calibration)):
        return ByRowsDecoder(few, many, limit)
    return LlamaDecoder(checkpoint.config, checkpoint, dtype, calibration)


def _few_rows(checkpoint: Checkpoint, many: LlamaDecoder) -> FewRows | None:
    """None where the kernel can't compute this model."""
    from engine.model.few import FewRows

    try:
        return FewRows(checkpoint, many)
    except ValueError:
        return None
