"""Arrays cross the wire as they are, bfloat16 too; what does not fit together is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from protos.arrays import BFLOAT16, pack_array, unpack_array

DTYPES = [np.float32, np.float16, np.int8, np.uint8, np.int32, np.int64]


@given(st.sampled_from(DTYPES), st.lists(st.integers(0, 4), max_size=3), st.randoms())
def test_round_trip(dtype: type[np.generic], shape: list[int], random: object) -> None:
    array = np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)
    back = unpack_array(list(pack_array(array)))
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert np.array_equal(back, array)


def test_bfloat16_keeps_its_bits_and_its_name() -> None:
    tensor = torch.randn(3, 5).bfloat16()
    array = tensor.view(torch.uint16).numpy().view(BFLOAT16)
    back = unpack_array(pack_array(array))
    assert back.dtype == BFLOAT16
    assert torch.equal(torch.from_numpy(back.view(np.uint16).copy()).view(torch.bfloat16), tensor)


def test_strided_and_big_endian_arrays() -> None:
    array = np.arange(12, dtype=">i4").reshape(3, 4)[:, ::2]
    assert np.array_equal(unpack_array(pack_array(array)), array)


def test_dtype_without_a_wire_form() -> None:
    with pytest.raises(ValueError, match="complex64 cannot be sent; convert"):
        pack_array(np.zeros(2, np.complex64))


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (None, "must be"),
        (["float32", [2]], "must be"),
        (["object", [1], b"12345678"], "'object' is unknown"),
        ([7, [1], b"1234"], "unknown"),
        (["float32", [2], b"1234"], "needs 8 bytes, got 4"),
        (["float32", [-1], b"1234"], "shape"),
        (["float32", [1] * 9, b"1234"], "shape"),
        (["float32", "1", b"1234"], "shape"),
        (["float32", [1], "1234"], "bytes"),
    ],
)
def test_malformed(packed: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        unpack_array(packed)
