"""Two proxies' proofs and sealed records, byte by byte."""

from __future__ import annotations

import pytest

from proxy.cluster.peer_login import (
    HELLO_BYTES,
    PROOF_BYTES,
    REPLY_BYTES,
    Hello,
    Keys,
    PeerError,
    Seal,
    Unseal,
    check,
    nonce_of,
    reply,
)

NONCE = bytes(range(32))


def keys(hello: Hello, *, nonce: bytes = NONCE, dialer: str = "d", listener: str = "l", shared: str = "") -> Keys:
    return Keys.derive(hello, nonce, dialer, listener, shared)


def test_both_ends_come_to_the_same_keys():
    hello = Hello.make(7, 3)
    assert len(hello.data()) == HELLO_BYTES
    listener = keys(Hello.read(hello.data()))
    packet = reply(NONCE, listener)
    assert len(packet) == REPLY_BYTES
    dialer = keys(hello, nonce=nonce_of(packet))
    check(packet[-PROOF_BYTES:], dialer.listener_proof)
    check(dialer.dialer_proof, listener.dialer_proof)
    assert dialer == listener
    assert len({dialer.listener_proof, dialer.dialer_proof, dialer.to_dialer, dialer.to_listener}) == 4


@pytest.mark.parametrize(
    "other",
    [{"dialer": "x"}, {"listener": "x"}, {"shared": "x"}, {"nonce": bytes(32)}, {"dialer": "l", "listener": "d"}],
)
def test_whoever_knows_less_proves_nothing(other):
    hello = Hello.make(7, 3)
    right, wrong = keys(hello), keys(hello, **other)
    with pytest.raises(PeerError):
        check(wrong.dialer_proof, right.dialer_proof)
    with pytest.raises(PeerError):
        check(wrong.listener_proof, right.listener_proof)


def test_a_recorded_login_proves_nothing_again():
    first, second = Hello.make(7, 3), Hello.make(7, 3)
    assert first.nonce != second.nonce
    with pytest.raises(PeerError):
        check(keys(first).dialer_proof, keys(second).dialer_proof)


def test_a_greeting_of_somebody_else_is_none():
    with pytest.raises(PeerError):
        Hello.read(b"HTTP" + bytes(HELLO_BYTES - 4))
    with pytest.raises(PeerError):
        nonce_of(b"HTTP" + bytes(REPLY_BYTES - 4))


def test_records_come_out_as_they_went_in_however_they_are_cut():
    seal, unseal = Seal(bytes(32)), Unseal(bytes(32))
    stream = b"".join(seal.close(b"word %d" % n) for n in range(5))
    got = [record for byte in stream for record in unseal.feed(bytes([byte]))]
    assert got == [b"word %d" % n for n in range(5)]


@pytest.mark.parametrize("harm", ["changed", "repeated", "left out", "swapped", "reflected"])
def test_what_was_not_sealed_in_this_place_is_no_record(harm):
    seal, unseal = Seal(bytes(32)), Unseal(bytes(32))
    one, two = seal.close(b"one"), seal.close(b"two")
    data = {
        "changed": one[:-1] + bytes([one[-1] ^ 1]),
        "repeated": one + one,
        "left out": two,
        "swapped": two + one,
        "reflected": Seal(b"\1" * 32).close(b"one"),
    }[harm]
    with pytest.raises(PeerError):
        list(unseal.feed(data))


def test_a_record_of_any_size_is_not_waited_for():
    with pytest.raises(PeerError):
        list(Unseal(bytes(32)).feed(b"\xff\xff\xff\xff"))
