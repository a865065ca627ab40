"""TokenText: single tokens as logprobs show them, a string and its bytes, also where a token is part of a character."""

from __future__ import annotations

from functools import cached_property
from typing import Any


class TokenText:
    """Text of single tokens of one tokenizer, remembered, since a logprobs answer asks for the same ones often."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._bytes: dict[int, bytes] = {}

    def raw(self, token: int) -> bytes:
        """The bytes that the token adds to the text."""
        if token not in self._bytes:
            self._bytes[token] = self._look_up(token)
        return self._bytes[token]

    def shown(self, token: int) -> str:
        """The text, or `bytes:\\xe2\\x80` where the bytes are no whole characters: distinct tokens stay distinct."""
        raw = self.raw(token)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)

    def _look_up(self, token: int) -> bytes:
        piece: str | None = self._tokenizer.convert_ids_to_tokens(token)
        if piece is None:
            return b""
        if self._is_byte_level and all(char in _BYTE_OF for char in piece):
            return bytes(_BYTE_OF[char] for char in piece)
        if len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
            return bytes([int(piece[3:5], 16)])
        text: str = self._tokenizer.decode([token])
        return text.encode()

    @cached_property
    def _is_byte_level(self) -> bool:
        backend = getattr(self._tokenizer, "backend_tokenizer", None)
        return "ByteLevel" in str(getattr(backend, "decoder", ""))


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's alphabet, read backwards: printable bytes stand for themselves, the others for U+0100 onwards."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + i): byte for i, byte in enumerate(others)}


_BYTE_OF = _byte_alphabet()
