"""Arrays on the wire: (dtype name, shape, little-endian bytes), bfloat16 included although numpy has none.

An array of bfloat16 is a numpy array of dtype `BFLOAT16`: 16-bit words under a field name, so that the name travels
with the array and nobody takes the words for integers. With torch, in both directions and without a copy:

    array = tensor.view(torch.uint16).numpy().view(BFLOAT16)
    tensor = torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MAX_DIMS = 8
BFLOAT16 = np.dtype([("bfloat16", "<u2")])

_DTYPES: dict[str, np.dtype[np.generic]] = {
    "float32": np.dtype("<f4"),
    "float16": np.dtype("<f2"),
    "bfloat16": BFLOAT16,
    "int8": np.dtype("i1"),
    "uint8": np.dtype("u1"),
    "int32": np.dtype("<i4"),
    "int64": np.dtype("<i8"),
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}

PackedArray = tuple[str, tuple[int, ...], bytes]


def pack_array(array: NDArray[np.generic]) -> PackedArray:
    """The wire form of an array; ValueError for a dtype that has none."""
    name = _NAMES.get(array.dtype.newbyteorder("<"))
    if name is None:
        raise ValueError(f"arrays of dtype {array.dtype} cannot be sent; convert to one of {', '.join(_DTYPES)}")
    return name, array.shape, np.ascontiguousarray(array, dtype=_DTYPES[name]).tobytes()


def unpack_array(packed: object) -> NDArray[np.generic]:
    """A read-only array over the given bytes; ValueError where the three parts do not fit each other."""
    if not isinstance(packed, list | tuple) or len(packed) != 3:
        raise ValueError("an array must be (dtype, shape, bytes)")
    name, shape, data = packed
    if not isinstance(name, str) or name not in _DTYPES:
        raise ValueError(f"array dtype {name!r} is unknown; known: {', '.join(_DTYPES)}")
    if not isinstance(data, bytes) or not _is_shape(shape):
        raise ValueError(f"array shape {shape!r} must be at most {MAX_DIMS} sizes, with its data as bytes")
    needed = math.prod(shape) * _DTYPES[name].itemsize
    if needed != len(data):
        raise ValueError(f"array of {name} {tuple(shape)} needs {needed} bytes, got {len(data)}")
    return np.frombuffer(data, dtype=_DTYPES[name]).reshape(shape)


def _is_shape(shape: object) -> bool:
    return (
        isinstance(shape, Sequence)
        and len(shape) <= MAX_DIMS
        and all(type(size) is int and 0 <= size < 2**31 for size in shape)
    )
