"""LiveEnds: embedding and LM head of a loaded model as plain matrices, for a drafter in the same process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveEnds:
    """embedding: [V, d]. lm_head: the same, and the same tensor where the model ties them; None where the model keeps
    no plain matrix: packed for the CPU, quantised."""

    embedding: torch.Tensor
    lm_head: torch.Tensor | None

    @classmethod
    def of(cls, model: Any) -> LiveEnds:
        """Those of a transformers model, looked at before its linears are packed."""
        embedding = model.get_input_embeddings().weight.detach()
        head = model.get_output_embeddings().weight.detach()
        if head.data_ptr() == embedding.data_ptr():
            return cls(embedding=embedding, lm_head=embedding)
        stays = head.device.type != "cpu" and head.dtype == embedding.dtype
        return cls(embedding=embedding, lm_head=head if stays else None)
