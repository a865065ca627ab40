"""Checkpoint: config.json and single tensors of a model's directory or hub repository, without loading the model."""

from __future__ import annotations

import json
import pickle
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from modeling.refusals import check_revision
from modeling.target import resolve_model

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLED = "pytorch_model.bin"
PROVENANCE = "provenance.json"


class Checkpoint:
    """Weights in one safetensors file, in several with an index, or pickled by torch, where nothing but tensors is let
    through. What cannot be read is a ValueError that names it."""

    def __init__(self, model: str, revision: str | None = None) -> None:
        """model: a local directory (`~` allowed), the built-in or a hub id."""
        self.name = model
        self._source = resolve_model(model)
        self._revision = revision
        check_revision(revision, self._source)

    @cached_property
    def config(self) -> dict[str, Any]:
        """config.json, an object."""
        config = self._json("config.json")
        if not isinstance(config, dict):
            raise ValueError(f"config.json of {self.name!r} is no JSON object; give the directory of a checkpoint")
        return config

    @cached_property
    def provenance(self) -> dict[str, Any]:
        """provenance.json, which training leaves beside weights; empty where there is none."""
        noted = {} if self._find(PROVENANCE) is None else self._json(PROVENANCE)
        return noted if isinstance(noted, dict) else {}

    def names(self) -> frozenset[str]:
        """Names of all tensors."""
        return frozenset(self._files or self._pickled)

    def tensor(self, name: str) -> torch.Tensor:
        """A copy of one tensor, on the CPU, in the dtype it is stored in."""
        if name not in self.names():
            raise ValueError(f"weights of {self.name!r} have no tensor {name!r}")
        if not self._files:
            return self._pickled[name].clone()
        try:
            with safe_open(self._files[name], framework="pt") as file:
                tensor: torch.Tensor = file.get_tensor(name)
        except (OSError, SafetensorError) as error:
            raise ValueError(f"tensor {name!r} of {self.name!r} could not be read: {error}") from error
        return tensor

    @cached_property
    def _files(self) -> dict[str, Path]:
        """The file that holds each tensor; none where they are pickled."""
        whole = self._find(WEIGHTS)
        if whole is not None:
            try:
                with safe_open(whole, framework="pt") as file:
                    return dict.fromkeys(file.keys(), whole)
            except (OSError, SafetensorError) as error:
                raise ValueError(f"weights of {self.name!r} could not be read: {error}") from error
        if self._find(INDEX) is None:
            if self._find(PICKLED) is None:
                raise ValueError(
                    f"{self.name!r} has neither {WEIGHTS} nor {INDEX} nor {PICKLED}; give a directory or a hub id of a "
                    "whole checkpoint"
                )
            return {}
        index = self._json(INDEX)
        files = index.get("weight_map") if isinstance(index, dict) else None
        if not isinstance(files, dict) or not files or not all(isinstance(file, str) for file in files.values()):
            raise ValueError(f"{INDEX} of {self.name!r} names no files in `weight_map`; give a whole checkpoint")
        return {name: self._path(file) for name, file in files.items()}

    @cached_property
    def _pickled(self) -> dict[str, torch.Tensor]:
        """Tensors by name, mapped into memory; EAGLE-3 is mostly published so."""
        try:
            loaded = torch.load(self._path(PICKLED), map_location="cpu", weights_only=True, mmap=True)
        except (OSError, RuntimeError, pickle.UnpicklingError) as error:
            raise ValueError(f"weights of {self.name!r} could not be read: {error}") from error
        if not isinstance(loaded, dict) or not all(isinstance(each, torch.Tensor) for each in loaded.values()):
            raise ValueError(f"{PICKLED} of {self.name!r} holds no tensors by name")
        return loaded

    def _json(self, file: str) -> Any:
        try:
            return json.loads(self._path(file).read_text())
        except ValueError as error:
            raise ValueError(f"{file} of {self.name!r} could not be read: {error}") from error

    def _path(self, file: str) -> Path:
        found = self._find(file)
        if found is None:
            raise ValueError(f"{self.name!r} has no {file}; give a local directory or a hub id of a whole checkpoint")
        return found

    def _find(self, file: str) -> Path | None:
        from transformers.utils.hub import cached_file

        try:
            found = cached_file(self._source, file, revision=self._revision)
        except OSError:
            return None
        return None if found is None else Path(found)
