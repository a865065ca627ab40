"""FeatureStore: features on disk, so that only the first pass over the answers needs the target's forward."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from drafters.training.answers import Example
from drafters.training.features import Features, TargetFeatures

ABOUT = "features.json"


class FeatureStore:
    """One file for each example, named by its tokens: shared by runs, methods and processes, and never stale.

    The folder belongs to one target and one choice of layers; ValueError where it was made for another.
    """

    def __init__(self, folder: Path, source: TargetFeatures) -> None:
        self._folder = folder
        self._source = source
        about = {
            "target": source.target.fingerprint,
            "dtype": str(source.target.dtype),
            "layers": list(source.layers),
            "law_size": source.law_size,
        }
        folder.mkdir(parents=True, exist_ok=True)
        _claim(folder / ABOUT, about)

    def __call__(self, examples: Sequence[Example]) -> list[Features]:
        """From disk where they are, else from the target; those are then kept."""
        found = {example.key: self._read(example) for example in examples}
        absent = [example for example in examples if found[example.key] is None]
        for example, computed in zip(absent, self._source(absent), strict=True):
            self._write(example, computed)
            found[example.key] = computed
        return [features for example in examples if (features := found[example.key]) is not None]

    def _path(self, example: Example) -> Path:
        return self._folder / example.key[:2] / f"{example.key}.safetensors"

    def _read(self, example: Example) -> Features | None:
        path = self._path(example)
        if not path.exists():
            return None
        try:
            features = Features(**load_file(path))
            _check_rows(features, example)
        except (SafetensorError, TypeError, ValueError) as error:
            raise ValueError(f"kept features in {path} are damaged ({error}); delete the file") from error
        return features

    def _write(self, example: Example, features: Features) -> None:
        path = self._path(example)
        path.parent.mkdir(exist_ok=True)
        work = path.with_suffix(f".{os.getpid()}")
        tensors = {"taps": features.taps, "law_ids": features.law_ids, "law_probs": features.law_probs}
        try:
            save_file(tensors, work)
        except SafetensorError as error:
            work.unlink(missing_ok=True)
            raise OSError(f"features cannot be kept in {self._folder}: {error}; make room, or give another") from error
        work.replace(path)  # whole or not there, whenever the process dies


def _check_rows(features: Features, example: Example) -> None:
    context = len(example.tokens) - 1
    rows = [len(each) for each in (features.taps, features.law_ids, features.law_probs)]
    wanted = [context, context - example.prompt_len, context - example.prompt_len]
    if rows != wanted:
        raise ValueError(f"of {rows} rows, not {wanted}")


def _claim(path: Path, about: dict[str, object]) -> None:
    if not path.exists():
        work = path.with_suffix(f".{os.getpid()}")
        work.write_text(json.dumps(about))
        work.replace(path)
    try:
        kept = dict(json.loads(path.read_text()))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{path} does not say what the features there are of ({error}); give another folder"
        ) from error
    for name, value in about.items():
        if kept.get(name) != value:
            raise ValueError(
                f"kept features in {path.parent} are of another run: {name} is {kept.get(name)!r} there, here it is "
                f"{value!r}; give another folder"
            )
