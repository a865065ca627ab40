"""Recording: a runner that notes every forward's works, and fails where told to."""

from __future__ import annotations

from dataclasses import replace

from modeling.work import Forward, Work
from verifier.engine import Engine


class Recording:
    def __init__(self, engine: Engine) -> None:
        self.works: list[list[Work]] = []
        self.fail_at: int | None = None
        self._real = engine._target.runner.forward
        engine._target = replace(engine._target, runner=self)
        self.num_slots, self.max_len, self.keep_path = 4, 512, lambda *_: None

    def forward(self, works: list[Work]) -> Forward:
        self.works.append(works)
        if self.fail_at == len(self.works):
            raise RuntimeError("injected")
        return self._real(works)
