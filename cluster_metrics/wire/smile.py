"""SMILE, Jackson's binary JSON, in the standard library: what Elasticsearch takes as ``application/smile``.

Written after the format's specification (github.com/FasterXML/smile-format-specification). The encoder gives each item
a header of its own and shares nothing across items, so an item means the same wherever it stands in a body. Within one
it may share names, as Jackson does unless told not to, but no values. No byte of an item is 0xFF, which separates
items.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

CONTENT_TYPE = "application/smile"
HEADER = b":)\n\x00"
"""Version 0, no shared names, no shared values, binary as 7 bits a byte."""
HEADER_SHARED = b":)\n\x01"
"""The same with shared names."""
SEPARATOR = b"\xff"
"""Ends each item of ``_bulk`` and ``_msearch``, as a newline does in NDJSON; the last one, too."""
END_OF_OBJECT = b"\xfb"
_LONGEST_ASCII = 2666
"""Characters of the longest text that Jackson calls ASCII: it looks where three bytes for each fit into 8000."""
_MOST_SHARED = 1024
_SHORT_REFERENCES = 64
"""Names that a single byte refers to."""
_LONGEST_SHARED = 56
"""Bytes of the longest name that is short in any script."""
_LITERALS = {0x20: "", 0x21: None, 0x22: False, 0x23: True}


class SmileError(ValueError):
    """A value that has no encoding, or bytes that are no SMILE."""


def encode(value: Any, float_bits: int = 64, share_names: bool = False) -> bytes:
    """One item: the header and a value as ``json.loads`` returns it.

    :param float_bits: 64, or 32 to round floats to single precision.
    :param share_names: write the name of a member once, and refer to it from then on; for up to 64 names of up to 56
        bytes.
    :raises SmileError: for a value that JSON has no type for, a float beyond single precision, or names that are too
        many or too long to be shared.
    """
    out = [HEADER_SHARED if share_names else HEADER]
    _encode(value, FLOATS[float_bits].encode, _Shared().token if share_names else name_token, out.append)
    return b"".join(out)


def body(items: Iterable[bytes]) -> bytes:
    """Encoded items as one body, each ended by the separator."""
    return b"".join(item + SEPARATOR for item in items)


@dataclass(frozen=True)
class Float:
    """Floats of one precision: a token, and their bits 7 a byte.

    :param token: says that a float follows.
    :param code: of the precision, as in :mod:`struct`.
    :param size: bytes after the token.
    """

    token: bytes
    code: str
    size: int

    def encode(self, value: float) -> bytes:
        """:raises SmileError: when the value is beyond the precision."""
        try:
            return self.token + _sevens(int.from_bytes(struct.pack(">" + self.code, value), "big"), self.size)
        except OverflowError:
            raise SmileError(f"{value} is beyond single precision") from None

    def encode_all(self, values: Sequence[float]) -> list[bytes]:
        """The same for thousands of values at once, in a tenth of the time and without their tokens."""
        packed = struct.pack(f">{len(values)}{self.code}", *values)
        raw_size = struct.calcsize(self.code)
        lanes = bytearray(self.size * len(values))
        for i in range(raw_size):
            lanes[self.size - raw_size + i :: self.size] = packed[i::raw_size]
        spread = _sevens(int.from_bytes(lanes, "big"), self.size, len(values))
        return list(struct.unpack(f"{self.size}s" * len(values), spread))


FLOATS = {32: Float(b"\x28", "f", 5), 64: Float(b"\x29", "d", 10)}
"""By bits; 32 rounds to single precision."""


def _sevens(bits: int, size: int, lanes: int = 1) -> bytes:
    """Spreads bits to 7 a byte.

    :param bits: of all lanes, each ``size`` bytes wide with up to ``7 * size`` bits at its low end.
    :param size: bytes of one lane.
    """
    ones = int.from_bytes((bytes(size - 1) + b"\x7f") * lanes, "big") if lanes > 1 else 0x7F
    spread = 0
    for i in range(size):
        spread |= bits << i & ones << 8 * i
    return spread.to_bytes(size * lanes, "big")


class _Shared:
    """The names of an item, each written once."""

    def __init__(self) -> None:
        self._references: dict[str, bytes] = {}

    def token(self, name: str) -> bytes:
        if reference := self._references.get(name):
            return reference
        token = name_token(name)
        if name:  # the empty one has a token of its own
            if len(self._references) == _SHORT_REFERENCES or len(name.encode()) > _LONGEST_SHARED:
                raise SmileError(f"shared names are up to {_SHORT_REFERENCES} of up to {_LONGEST_SHARED} bytes")
            self._references[name] = bytes((0x40 + len(self._references),))
        return token


def _encode(
    value: Any, encode_float: Callable[[float], bytes], name: Callable[[str], bytes], add: Callable[[bytes], None]
) -> None:
    if isinstance(value, str):
        add(_text(value))
    elif value is None or isinstance(value, bool):
        add(b"!" if value is None else b"#" if value else b'"')
    elif isinstance(value, int):
        add(integer_token(value))
    elif isinstance(value, float):
        add(encode_float(value))
    elif isinstance(value, dict):
        add(b"\xfa")
        for key, member in value.items():
            add(name(key))
            _encode(member, encode_float, name, add)
        add(END_OF_OBJECT)
    elif isinstance(value, (list, tuple)):
        add(b"\xf8")
        for member in value:
            _encode(member, encode_float, name, add)
        add(b"\xf9")
    else:
        raise SmileError(f"{type(value).__name__} has no encoding in SMILE")


def name_token(name: str) -> bytes:
    """The name of a member of an object."""
    if not isinstance(name, str):
        raise SmileError(f"the name of a member is {name!r}, it must be text")
    raw = name.encode()
    size = len(raw)
    if not size:
        return b"\x20"
    if name.isascii() and size <= 64:
        return bytes((0x7F + size,)) + raw
    if size <= 56 and not name.isascii():  # 57 fit, but Jackson does the same
        return bytes((0xBE + size,)) + raw
    return b"\x34" + raw + b"\xfc"


def _text(value: str) -> bytes:
    raw = value.encode()
    size = len(raw)
    if not size:
        return b"\x20"
    ascii_only = value.isascii()
    if size <= 64:  # 65 fit where not ASCII, but Jackson does the same
        return bytes(((0x3F if ascii_only else 0x7E) + size,)) + raw
    return (b"\xe0" if ascii_only and size <= _LONGEST_ASCII else b"\xe4") + raw + b"\xfc"


def integer_token(value: int) -> bytes:
    """An integer in its shortest form: within the token from -16 to 15, else as 32 bits, 64 bits or any size."""
    zigzag = value << 1 if value >= 0 else ~(value << 1)
    if zigzag < 32:
        return bytes((0xC0 + zigzag,))
    if zigzag < 1 << 32:
        return b"\x24" + _vint(zigzag)
    if zigzag < 1 << 64:
        return b"\x25" + _vint(zigzag)
    size = (value ^ -(value < 0)).bit_length() // 8 + 1
    whole, rest = divmod(8 * size, 7)
    # the last byte has what 7 bits a byte leave, at its low end
    bits = (value & (1 << 8 * size) - 1) >> rest
    last = bytes((value & (1 << rest) - 1,)) if rest else b""
    return b"\x26" + _vint(size) + _sevens(bits, whole) + last


def _vint(value: int) -> bytes:
    """6 bits in the last byte, which alone has its high bit set, 7 bits in those before."""
    last = bytes((0x80 | value & 0x3F,))
    rest = value >> 6
    return _sevens(rest, -(-rest.bit_length() // 7)) + last


def decode(data: bytes) -> Any:
    """The value of one item, which may share names and values and end with a separator.

    :raises SmileError: when the bytes are no SMILE, or end within the item.
    """
    if len(data) < len(HEADER) or data[:3] != HEADER[:3]:
        raise SmileError("no SMILE header")
    decoder = _Decoder(data)
    try:
        value = decoder.value()
    except (IndexError, OverflowError, ValueError):  # UnicodeDecodeError is a ValueError
        raise SmileError(f"no SMILE at byte {decoder.at} of {len(data)}") from None
    if data[decoder.at :] not in (b"", SEPARATOR):
        raise SmileError(f"bytes after the end of the item, from byte {decoder.at}")
    return value


class _Decoder:
    def __init__(self, data: bytes):
        self._data, self.at = data, len(HEADER)
        flags = data[3]
        self._names: list[str] | None = [] if flags & 1 else None
        self._texts: list[str] | None = [] if flags & 2 else None

    def _take(self, size: int) -> bytes:
        raw = self._data[self.at : self.at + size]
        if len(raw) < size:
            raise IndexError
        self.at += size
        return raw

    def _until_end_of_text(self) -> str:
        end = self._data.index(b"\xfc", self.at)
        raw = self._take(end - self.at)
        self.at += 1
        return raw.decode()

    def _bits(self, size: int) -> int:
        bits = 0
        for byte in self._take(size):
            bits = bits << 7 | byte
        return bits

    def _vint(self) -> int:
        value = 0
        while not (byte := self._take(1)[0]) & 0x80:
            value = value << 7 | byte
        return value << 6 | byte & 0x3F

    def _big_integer(self) -> int:
        size = self._vint()
        whole, rest = divmod(8 * size, 7)
        bits = self._bits(whole)
        if rest:
            bits = bits << rest | self._take(1)[0]
        return int.from_bytes(bits.to_bytes(size, "big"), "big", signed=True)

    def _remember(self, shared: list[str] | None, text: str) -> str:
        if shared is not None:
            if len(shared) == _MOST_SHARED:
                shared.clear()
            shared.append(text)
        return text

    def value(self) -> Any:
        token = self._take(1)[0]
        if token in _LITERALS:
            return _LITERALS[token]
        if 0xC0 <= token <= 0xDF:
            return _unzigzag(token & 0x1F)
        if 0x40 <= token <= 0xBF:
            size = token - (0x3F if token < 0x80 else 0x7E)
            text = self._take(size).decode()
            return self._remember(self._texts, text) if size <= 64 else text
        if token == 0xFA:
            return dict(self._members())
        if token == 0xF8:
            return list(self._elements())
        if token == 0x29:
            return struct.unpack(">d", self._bits(10).to_bytes(8, "big"))[0]
        if token == 0x28:
            return struct.unpack(">f", self._bits(5).to_bytes(4, "big"))[0]
        if token in (0x24, 0x25):
            return _unzigzag(self._vint())
        if token == 0x26:
            return self._big_integer()
        if token in (0xE0, 0xE4):
            return self._until_end_of_text()
        if self._texts is not None and 1 <= token <= 0x1F:
            return self._texts[token - 1]
        if self._texts is not None and 0xEC <= token <= 0xEF:
            return self._texts[(token & 3) << 8 | self._take(1)[0]]
        raise ValueError(token)

    def _elements(self) -> Iterator[Any]:
        while self._data[self.at] != 0xF9:
            yield self.value()
        self.at += 1

    def _members(self) -> Iterator[tuple[str, Any]]:
        while (token := self._take(1)[0]) != 0xFB:
            yield self._name(token), self.value()

    def _name(self, token: int) -> str:
        if 0x80 <= token <= 0xF7:
            size = token - (0x7F if token < 0xC0 else 0xBE)
            return self._remember(self._names, self._take(size).decode())
        if token == 0x20:
            return ""
        if token == 0x34:
            return self._remember(self._names, self._until_end_of_text())
        if self._names is not None and 0x40 <= token <= 0x7F:
            return self._names[token & 0x3F]
        if self._names is not None and 0x30 <= token <= 0x33:
            return self._names[(token & 3) << 8 | self._take(1)[0]]
        raise ValueError(token)


def _unzigzag(bits: int) -> int:
    return bits >> 1 ^ -(bits & 1)
