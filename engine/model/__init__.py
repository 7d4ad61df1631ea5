"""Decoders and the factory that picks one. torch is imported only when a model is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.model.config import require_supported

if TYPE_CHECKING:
    import torch

    from engine.model.base import Decoder
    from engine.model.calibration import Calibration
    from engine.weights.checkpoint import Checkpoint


def load_decoder(checkpoint: Checkpoint, dtype: torch.dtype, calibration: Calibration | None = None) -> Decoder:
    """The checkpoint's decoder with weights and activations in `dtype` (float32 or bfloat16).

    With a `calibration`, matrices that are stored in 4 bits are multiplied as such where that is faster.
    """
    require_supported(checkpoint.config.architecture, checkpoint.name)
    from engine.model.llama import LlamaDecoder

    return LlamaDecoder(checkpoint.config, checkpoint, dtype, calibration)
