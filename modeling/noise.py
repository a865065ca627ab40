"""Counter-based noise: a pure function of (seed, position, stream, token), equal on every device and library.

The target draws its token as `argmax(logits + gumbel)` (the Gumbel-max trick). As the noise of a position depends on
nothing but the request's seed, the drawn text is the same with any draft, batch or replica, and a drafter that knows
the seed can share it (arXiv 2408.07978).
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

_MASK32 = 0xFFFFFFFF
_MASK64 = 0xFFFFFFFFFFFFFFFF
_LEVELS = 1 << 24
_GRID = 1 << 19

Bits = TypeVar("Bits", int, NDArray[Any], torch.Tensor)


class Stream(IntEnum):
    """What a draw is for. Two draws of different streams are independent, even at one position with one seed."""

    TOKEN = 1
    ACCEPT = 2
    RESIDUAL = 3


class NoiseKey(NamedTuple):
    """64 bits that stand for one (seed, position, stream)."""

    low: int
    high: int


def noise_key(seed: int, position: int, stream: Stream = Stream.TOKEN) -> NoiseKey:
    """Key of a position. For a fixed position and stream it is a bijection of the seed's 64 bits, and vice versa."""
    state = _mix64((seed + stream * 0x9E3779B97F4A7C15) & _MASK64)
    state = _mix64((state + position * 0xD1B54A32D192ED03) & _MASK64)
    return NoiseKey(state & _MASK32, state >> 32)


def noise_bits(key: NoiseKey, tokens: Bits) -> Bits:
    """24 random bits for each token id: a Python int, a uint32 array or an int64 tensor, the same value in each.

    Both multipliers (from Wellons' hash prospector) are below 2^31, so that no product of theirs overflows int64.
    """
    state = tokens ^ key.low
    state = ((state ^ (state >> 16)) * 0x21F0AAAD) & _MASK32
    state = ((state ^ (state >> 15)) + key.high) & _MASK32
    state = (state * 0x735A2D97) & _MASK32
    return (state ^ (state >> 15)) >> 8


def gumbel(seed: int, position: int, tokens: torch.Tensor, stream: Stream = Stream.TOKEN) -> torch.Tensor:
    """Standard Gumbel noise of int64 token ids [n] on their device, float32 [n]."""
    return _gumbel_of_tensor(noise_bits(noise_key(seed, position, stream), tokens.to(torch.int64)))


def gumbel_rows(keys: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """The same for many positions: int64 keys [..., 2], low and high, and token ids [..., n] → float32 [..., n].

    numpy does so few in a third of torch's time on a CPU.
    """
    if tokens.device.type == "cpu":
        parts = keys.numpy().astype(np.uint32)
        bits = noise_bits(NoiseKey(parts[..., :1], parts[..., 1:]), tokens.numpy().astype(np.uint32))  # type: ignore[arg-type]
        return torch.from_numpy(gumbel_of_bits(bits).astype(np.float32))
    low, high = keys[..., :1], keys[..., 1:]
    return _gumbel_of_tensor(noise_bits(NoiseKey(low, high), tokens))  # type: ignore[arg-type]


def gumbel_scalar(key: NoiseKey, token: int) -> float:
    """The noise of one token, in plain Python."""
    return _gumbel_of(noise_bits(key, token))


def gumbel_of_bits(bits: NDArray[np.uint32]) -> NDArray[np.float64]:
    """The noise that `noise_bits` stand for.

    Rounded to a grid of 2^-19 rather than to the nearest float32: there no one of the 2^24 values comes within a
    hundred times the error of a float64 log to a rounding boundary, so every maths library gives the same result.
    Every value on the grid is a float32.
    """
    uniforms = (bits.astype(np.float64) + 0.5) / _LEVELS
    rounded: NDArray[np.float64] = np.round(-np.log(-np.log(uniforms)) * _GRID) / _GRID
    return rounded


def may_exceed(bits: NDArray[np.uint32], level: NDArray[np.float32]) -> NDArray[np.bool_]:
    """False only where the noise of `bits` is certainly below `level`; one exponential in place of two logarithms.

    g > level means -log u < exp(-level), and 1 - u <= -log u. The factor covers the rounding of both sides.
    """
    rest = (_LEVELS - 1 - bits).astype(np.float32) / np.float32(_LEVELS)
    passed: NDArray[np.bool_] = rest < np.exp(-level) * np.float32(1 + 1e-5)
    return passed


def uniform(seed: int, position: int, stream: Stream, index: int = 0) -> float:
    """A uniform strictly inside (0, 1): the `index`-th draw of a stream at a position."""
    return (noise_bits(noise_key(seed, position, stream), index) + 0.5) / _LEVELS


def _gumbel_of_tensor(bits: torch.Tensor) -> torch.Tensor:
    uniforms = (bits.to(torch.float64) + 0.5) / _LEVELS
    return ((-(-uniforms.log()).log() * _GRID).round() / _GRID).to(torch.float32)


def _gumbel_of(bits: int) -> float:
    uniform_value = (bits + 0.5) / _LEVELS
    return round(-math.log(-math.log(uniform_value)) * _GRID) / _GRID


def _mix64(state: int) -> int:
    """Finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK64
    return state ^ (state >> 31)


NOISE_MAX = _gumbel_of(_LEVELS - 1)
