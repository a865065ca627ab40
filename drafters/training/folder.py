"""RunFolder: what a training run leaves on disk: the weights to use, where they come from, and the place to go on from.

config.json, model.safetensors (bf16): the drafter as it was when its drafts lived longest on held-out answers.
provenance.json: how those weights were made. training.pt: the last step, to resume from.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from drafters.training.sole_writer import sole_writer
from drafters.training.trainee import Trainee
from modeling.checkpoint_files import PROVENANCE

State = dict[str, Any]


class RunFolder:
    """Every file is written elsewhere and then renamed: it is whole or as before, whenever the process dies."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._training = path / "training.pt"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Makes the folder, for this process alone; ValueError where another one is training into it."""
        self.path.mkdir(parents=True, exist_ok=True)
        with sole_writer(self.path):
            yield

    def open(self, *, resume: bool) -> State | None:
        """The state to go on from, None at a beginning. ValueError where a run lies here that is not to be resumed."""
        if not self._training.exists():
            return None
        if not resume:
            raise ValueError(f"{str(self.path)!r} holds a training run; resume it, or give another folder")
        return self._read()

    def _read(self) -> State:
        try:
            state = torch.load(self._training, map_location="cpu", weights_only=True)
            return dict(state)
        except Exception as error:  # of any kind: torch's unpickler raises what the bytes happen to lead to
            raise ValueError(
                f"{self._training} is damaged or holds no training run ({type(error).__name__}: {error}); "
                "delete it to begin anew, or give another folder"
            ) from error

    def save(self, state: State) -> None:
        """Keeps the state of the last step."""
        work = self._training.with_suffix(".new")
        with self._room():
            torch.save(state, work)
            work.replace(self._training)

    def publish(self, trainee: Trainee, provenance: Mapping[str, object]) -> None:
        """Makes these the weights to use."""
        with self._room(), tempfile.TemporaryDirectory(prefix=".publish-", dir=self.path) as name:
            work = Path(name)
            trainee.publish(work)
            (work / PROVENANCE).write_text(json.dumps(provenance, indent=1) + "\n")
            mode = (work / PROVENANCE).stat().st_mode  # by the umask; safetensors writes its files for the owner alone
            for file in sorted(work.iterdir()):
                file.chmod(mode)
                file.replace(self.path / file.name)

    @contextmanager
    def _room(self) -> Iterator[None]:
        """What a full disk makes torch and safetensors raise becomes an OSError that says what helps."""
        try:
            yield
        except (SafetensorError, RuntimeError, OSError) as error:
            raise OSError(
                f"{str(self.path)!r} cannot be written ({error}); what was there is as before: make room, then --resume"
            ) from error
