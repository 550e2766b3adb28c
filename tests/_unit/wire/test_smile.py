"""SMILE against Jackson's own implementation, which Elasticsearch uses."""

import contextlib
import json
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from _tools.elasticsearch.install import ECJ, JRE_HOME, compile_java, fetch
from _tools.race.rally import DOWNLOADS
from cluster_metrics.wire import smile
from cluster_metrics.wire.smile import SmileError, decode, encode

HERE = Path(__file__).parent
JARS = (
    "com.fasterxml.jackson.core:jackson-core:2.17.2",
    "com.fasterxml.jackson.dataformat:jackson-dataformat-smile:2.17.2",
)

SIGNS = st.sampled_from((1, -1))
CHARACTERS = ("x", "é", "€", "𝄞")
"""Of one, two, three and four bytes."""
integers = st.one_of(
    st.integers(-20, 20),
    st.integers(-(2**300), 2**300),
    st.builds(lambda power, near, sign: sign * 2**power + near, st.integers(0, 200), st.integers(-2, 2), SIGNS),
)
floats = st.floats(allow_nan=False, allow_infinity=False)
texts = st.one_of(
    st.text(max_size=5),
    # drawn by few numbers, for most of a test's time would go into drawing long ones character by character
    st.builds(
        lambda head, heads, tail, tails: head * heads + tail * tails,
        *(st.sampled_from(CHARACTERS), st.integers(0, 70)) * 2,
    ),
)
documents = st.recursive(
    st.one_of(st.none(), st.booleans(), integers, floats, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=8), st.dictionaries(texts, inner, max_size=8)),
    max_leaves=20,
)
SHARED = {"names": [{f"name {i % 1100}": i, "é": "value", "x" * 70: 1} for i in range(1500)], "value": ["value"] * 3}


@pytest.fixture(scope="module")
def jackson(tmp_path_factory):
    classes = tmp_path_factory.mktemp("classes")
    jars = []
    for coordinates in JARS:  # a jar must be called so
        jars.append(classes / (coordinates.split(":")[1] + ".jar"))
        jars[-1].symlink_to(fetch(coordinates, DOWNLOADS).resolve())
    compile_java([HERE / "data" / "SmileOracle.java"], jars, classes, fetch(ECJ, DOWNLOADS))
    command = [str(JRE_HOME / "bin" / "java"), "-cp", ":".join(map(str, [*jars, classes])), "SmileOracle"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(kind, data):
        process.stdin.write(kind.encode() + struct.pack(">i", len(data)) + data)
        process.stdin.flush()
        (size,) = struct.unpack(">i", process.stdout.read(4))
        if size < 0:
            (size,) = struct.unpack(">h", process.stdout.read(2))
            raise ValueError(process.stdout.read(size).decode())
        return process.stdout.read(size)

    yield ask
    process.stdin.close()
    assert process.wait(timeout=10) == 0


def same(one, other):
    """Equal, and of the same types: 1 is not 1.0, and 0.0 not -0.0."""
    return repr(one) == repr(other)


def holds_against(jackson, document):
    encoded = encode(document)
    assert smile.SEPARATOR not in encoded
    assert same(json.loads(jackson("d", encoded)), document)
    text = json.dumps(document).encode()
    assert jackson("e", text) == encoded
    for kind in "esv":
        written = jackson(kind, text)
        assert same(decode(written), document)
        assert same(decode(written + smile.SEPARATOR), document)


@settings(max_examples=500)
@given(documents)
@example(SHARED)
def test_we_and_jackson_write_the_same_bytes_and_read_what_the_other_writes(jackson, document):
    holds_against(jackson, document)


def test_texts_and_names_of_every_length_around_the_limits_of_tokens(jackson):
    """Tokens hold lengths of texts up to 64 bytes and of names up to 64 or 56, by whether they are ASCII."""
    for character in CHARACTERS:
        for size in (*range(130 // len(character.encode())), 1000, *range(2660, 2670), 4000):
            for padded in ("", "x", "xx", "xxx"):
                for text in (padded + character * size, "x" * size + character * len(padded)):
                    holds_against(jackson, {text: text})


NAMES = ["", "é" * 28, "x" * 56, *(f"name {i}" for i in range(61))]
"""With one of no bytes, which is never shared, and two of as many as may be."""


@settings(max_examples=300)
@given(
    st.recursive(
        integers,
        lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=8),
        max_leaves=100,
    )
)
@example([dict.fromkeys(NAMES, 1)] * 3)
def test_names_are_shared_as_jackson_shares_them(jackson, document):
    encoded = encode(document, share_names=True)
    assert encoded == jackson("s", json.dumps(document).encode())
    assert smile.SEPARATOR not in encoded
    assert same(decode(encoded), document)


@pytest.mark.parametrize("names", [[f"name {i}" for i in range(65)], ["x" * 57], ["é" * 29]])
def test_names_too_many_or_too_long_are_not_shared(names):
    with pytest.raises(SmileError, match="up to 64 of up to 56 bytes"):
        encode(dict.fromkeys(names, 1), share_names=True)


def test_integers_around_every_power_of_two(jackson):
    for power in range(200):
        holds_against(jackson, [sign * 2**power + near for near in range(-2, 3) for sign in (1, -1)])


@settings(max_examples=500)
@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False)))
def test_single_precision(jackson, values):
    encoded = encode(values, 32)
    assert smile.SEPARATOR not in encoded
    read = [struct.unpack(">f", struct.pack(">f", v))[0] for v in json.loads(jackson("d", encoded))]
    assert same(read, values)
    assert same(decode(encoded), values)


@settings(max_examples=200)
@given(st.lists(floats, min_size=1), st.lists(st.floats(width=32), min_size=1))
def test_many_floats_at_once_are_those_one_by_one(doubles, singles):
    for bits, values in ((64, doubles), (32, singles)):
        precision = smile.FLOATS[bits]
        assert precision.encode_all(values) == [precision.encode(v)[1:] for v in values]


def test_what_has_no_encoding():
    with pytest.raises(SmileError, match="^1e[+]39 is beyond single precision$"):
        encode(1e39, 32)
    with pytest.raises(SmileError, match="^set has no encoding in SMILE$"):
        encode({"a": {1}})
    with pytest.raises(SmileError, match="^the name of a member is 1, it must be text$"):
        encode({1: 1})


@settings(max_examples=500)
@given(documents, st.data())
def test_bytes_that_are_cut_off_or_damaged_never_hang_or_crash(document, data):
    encoded = encode(document)
    with pytest.raises(SmileError):
        decode(encoded[: data.draw(st.integers(0, len(encoded) - 1))])
    damaged = bytearray(encoded)
    damaged[data.draw(st.integers(4, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(SmileError):
        decode(bytes(damaged))


def test_what_is_no_item():
    for data, message in (
        (b'{"index":{}}', "no SMILE header"),
        (encode(1) + encode(2), "bytes after the end of the item, from byte 5"),
        (smile.HEADER + b"\x00", "no SMILE at byte 5 of 5"),
    ):
        with pytest.raises(SmileError, match=f"^{message}$"):
            decode(data)


def test_a_reference_counts_the_texts_that_may_be_shared_and_no_longer_ones():
    longest, longer = "é" * 32, "é" * 32 + "x"
    shared = [b"\x40a", b"\xbe" + longest.encode(), b"\xbf" + longer.encode(), b"\x41bc", b"\x01\x02\x03"]
    assert decode(b":)\n\x02\xf8" + b"".join(shared) + b"\xf9") == ["a", longest, longer, "bc", "a", longest, "bc"]


NUMBERED = [f"{i:04}" for i in range(1026)]


def test_references_to_texts_begin_anew_after_1024():
    texts = b"".join(b"\x43" + text.encode() for text in NUMBERED)
    assert decode(b":)\n\x02\xf8" + texts + b"\x01\xec\x01\xf9") == [*NUMBERED, "1024", "1025"]


def test_references_to_names_begin_anew_after_1024():
    members = b"".join(b"\x83" + name.encode() + b"\xc0" for name in NUMBERED)
    found = decode(b":)\n\x01\xfa" + members + b"\x40\xc2\x30\x01\xc4\xfb")
    assert found == dict.fromkeys(NUMBERED, 0) | {"1024": 1, "1025": 2}
