"""Recording: a runner that notes every forward's works, and fails where told to."""

from __future__ import annotations

from dataclasses import replace

from modeling.work import Forward, Work
from verifier.engine import Engine


class Recording:
    def __init__(self, engine: Engine) -> None:
        self.works: list[list[Work]] = []
        self.fail_at: int | None = None
        real = engine._target.runner
        self._real = real.forward
        self.num_slots, self.max_len = real.num_slots, real.max_len
        self.keep_path, self.copy_rows = real.keep_path, real.copy_rows
        engine._target = replace(engine._target, runner=self)

    def forward(self, works: list[Work], *, taps: tuple[int, ...] = ()) -> Forward:
        self.works.append(works)
        if self.fail_at == len(self.works):
            raise RuntimeError("injected")
        return self._real(works, taps=taps)
