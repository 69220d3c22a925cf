"""A server that logs clients in, answers COM_CHANGE_USER, and says OK to all the rest: for tests of logins."""

from __future__ import annotations

from ssl import SSLContext

from wire_server import WireServer

from mysql_wire import replies
from mysql_wire.errors import FatalProtocolError
from proxy.errors import LoginFailed, StreamClosed
from proxy.login.accounts import Account, Accounts
from proxy.login.carried_login import LoginResult
from proxy.login.client_tls import OfferedTls
from proxy.login.own_accounts import LoginRules, OwnIdentities, ShownServer, change_own_user, log_in_with_own_account
from proxy.transport.client_socket import ClientSocket


class LoginServer(WireServer):
    """`commands` is everything that was executed."""

    def __init__(self, *accounts: Account, loop: str = "uvloop", tls: SSLContext | None = None) -> None:
        super().__init__(loop)
        self.logins: list[LoginResult] = []
        self.failed_logins: list[LoginFailed] = []
        self.commands: list[bytes] = []
        self._identities = OwnIdentities(Accounts(accounts))
        self._tls = OfferedTls(tls) if tls is not None else None

    async def _serve(self, stream: ClientSocket) -> None:
        try:
            login = await log_in_with_own_account(
                stream, self._identities, 7, ShownServer("8.0.40-test"), LoginRules(tls=self._tls, timeout=5)
            )
            self.logins.append(login)
            while (payload := await stream.read_command())[:1] != b"\x01":
                if payload[:1] == b"\x11":
                    login = await change_own_user(stream, self._identities, payload, login, LoginRules())
                    self.logins.append(login)
                    continue
                self.commands.append(payload)
                await stream.write(replies.ok_packet(login.capabilities, status=2))
        except LoginFailed as error:
            self.failed_logins.append(error)
        except (StreamClosed, FatalProtocolError):
            pass
        finally:
            stream.close()
