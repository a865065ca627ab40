"""read: the same numbers and gradients as from whole logits by torch's own functions."""

from __future__ import annotations

import pytest
import torch

from drafters.training import reading
from drafters.training.reading import Bias, read

SIZE, HIDDEN, RANK, LAW = 11, 6, 3, 4


@pytest.mark.parametrize("biased", [False, True])
def test_numbers_and_gradients_are_those_of_whole_logits(biased: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "ROWS", 4)  # 3 * 5 rows: the last piece is a short one
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(3, 5, HIDDEN, generator=generator, dtype=torch.float32).requires_grad_()
    head = torch.randn(SIZE, HIDDEN, generator=generator).requires_grad_()
    mixed = torch.randn(3, 5, RANK, generator=generator).requires_grad_()
    weight = torch.randn(SIZE, RANK, generator=generator).requires_grad_()
    labels = torch.randint(0, SIZE, (3, 5), generator=generator)
    law_ids = torch.randint(0, SIZE + 1, (3, 5, LAW), generator=generator)
    bias = Bias(mixed=mixed, weight=weight) if biased else None
    trained = [hidden, head, mixed, weight] if biased else [hidden, head]

    got = read(hidden, head, labels, law_ids, bias)
    logits = hidden @ head.T + (mixed @ weight.T if biased else 0)
    log_q = logits.log_softmax(-1)
    log_label = log_q.gather(-1, labels[..., None])[..., 0]
    log_law = log_q.gather(-1, law_ids.clamp(max=SIZE - 1))

    assert torch.equal(got.best, logits.argmax(-1))
    torch.testing.assert_close(got.log_label, log_label)
    torch.testing.assert_close(got.log_law, log_law)
    pulls = torch.randn(log_law.shape, generator=generator)
    ours = torch.autograd.grad((got.log_label * 2 + (got.log_law * pulls).sum(-1)).sum(), trained)
    theirs = torch.autograd.grad((log_label * 2 + (log_law * pulls).sum(-1)).sum(), trained)
    for own, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(own, expected, atol=1e-5, rtol=1e-4)
