"""Connection attributes: the quick reading of short strings judges as the general one does, of whatever bytes."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from mysql_mimic.types import str_len

from mysql_wire.errors import MalformedPacket
from mysql_wire.login import _read_attributes, _read_long_attributes
from mysql_wire.packet_reader import PayloadReader

_STRING = st.one_of(st.binary(max_size=8), st.integers(240, 300).map(bytes))


def encoded(attributes: dict[bytes, bytes]) -> bytes:
    return b"".join(str_len(name) + str_len(value) for name, value in attributes.items())


@given(st.dictionaries(_STRING, _STRING, max_size=5))
def test_any_lengths(attributes: dict[bytes, bytes]) -> None:
    assert _read_attributes(PayloadReader(str_len(encoded(attributes)), "test")) == attributes


@given(
    st.one_of(
        st.binary(max_size=20),
        st.tuples(st.dictionaries(_STRING, _STRING, max_size=3).map(encoded), st.integers(0, 20)).map(
            lambda cut: cut[0][: len(cut[0]) - cut[1]]
        ),
    )
)
@example(b"\x01a")  # a name without a value
@example(b"\x01a\x05b")  # a value that is not all there
@example(b"\xfb\x01a\x01b")  # NULL where a name must be
def test_any_bytes(data: bytes) -> None:
    def verdict(read: object) -> object:
        try:
            return read()  # type: ignore[operator]
        except MalformedPacket as error:
            return str(error)

    quick = verdict(lambda: _read_attributes(PayloadReader(str_len(data), "test")))
    assert quick == verdict(lambda: _read_long_attributes(data))
