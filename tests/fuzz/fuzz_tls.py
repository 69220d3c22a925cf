"""A client that encrypts its line, over a transport of the fuzzer's: what it says and hears is told in clear."""

from __future__ import annotations

import ssl

from fuzz_loop import FuzzLoop, FuzzTransport

_TURNS_MAX = 20  # of a handshake; TLS 1.3 takes two

_CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
_CONTEXT.check_hostname, _CONTEXT.verify_mode = False, ssl.CERT_NONE  # whom it talks to is not what is tested


class TlsClient:
    """Begins where the transport's output is now. `heard`: what the gate said since, decrypted; `failed`: it ended."""

    def __init__(self, loop: FuzzLoop, transport: FuzzTransport) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = _CONTEXT.wrap_bio(self._in, self._out)
        self._loop, self._transport = loop, transport
        self.start = self._read = len(transport.output)
        self.heard = b""
        self.failed = False

    def shake_hands(self) -> None:
        for _ in range(_TURNS_MAX):
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                if not self._exchange():
                    break
            except ssl.SSLError:
                break
            else:
                self._exchange()
                return
        self.failed = True

    def say(self, data: bytes) -> None:
        """One write, which is one record (or several)."""
        if not self.failed and data:
            self._tls.write(data)
            self._transport.deliver(self._out.read())

    def hear(self) -> None:
        """Decrypt what has come."""
        self._take()
        try:
            while not self.failed and (piece := self._tls.read(1 << 16)):
                self.heard += piece
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            self.failed = True

    def _exchange(self) -> bool:
        """Send what there is to be sent; whether anything came for it."""
        before = self._read
        if self._out.pending:
            self._transport.deliver(self._out.read())
        self._loop.pump()
        self._take()
        return self._read > before

    def _take(self) -> None:
        self._in.write(bytes(self._transport.output[self._read :]))
        self._read = len(self._transport.output)
