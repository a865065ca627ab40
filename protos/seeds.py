"""expand: one request for n answers becomes n independent ones, each with a seed of its own."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import replace

from protos.sampling_params import MAX_SEED, SamplingParams


def expand(params: SamplingParams) -> tuple[SamplingParams, ...]:
    """`params.n` children with n=1 and a seed. Child 0 has the given seed, so that asking for more changes no answer.

    Child i > 0 has a hash of (seed, i): the same on every machine, and no two children share their noise. Without a
    given seed one is drawn from the operating system.
    """
    seed = secrets.randbelow(MAX_SEED + 1) if params.seed is None else params.seed
    return tuple(replace(params, n=1, seed=_derive(seed, child)) for child in range(params.n))


def _derive(seed: int, child: int) -> int:
    if child == 0:
        return seed
    digest = hashlib.blake2b(f"{seed}/{child}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") & MAX_SEED
