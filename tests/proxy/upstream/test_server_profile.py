"""What clients are told of a server without a line to it."""

from __future__ import annotations

from dataclasses import replace

from mysql_wire.flags import CONNECT_ATTRS, DEPRECATE_EOF, EXTENDED_METADATA, PLUGIN_AUTH, PROTOCOL_41, SSL
from mysql_wire.login import Greeting
from mysql_wire.status_flags import AUTOCOMMIT
from proxy.login.as_client import ServerLogin
from proxy.upstream.server_profile import BackendProfile, Collation

GREETING = Greeting("8.0.40", 77, PROTOCOL_41 | DEPRECATE_EOF | SSL | EXTENDED_METADATA, 255, AUTOCOMMIT)
COLLATIONS = {45: Collation("utf8mb4_general_ci", "utf8mb4"), 8: Collation("latin1_swedish_ci", "latin1")}


def test_every_login_tells_anew() -> None:
    profile = BackendProfile.of(ServerLogin(GREETING, AUTOCOMMIT, 0), COLLATIONS)
    assert (profile.server_version, profile.charset, profile.greeting_status) == ("8.0.40", 255, AUTOCOMMIT)
    upgraded = replace(GREETING, server_version="8.4.0", capabilities=PROTOCOL_41, charset=45)
    profile.learn(ServerLogin(upgraded, AUTOCOMMIT | 0x200, 0))
    assert (profile.server_version, profile.charset, profile.session_status) == ("8.4.0", 45, AUTOCOMMIT | 0x200)
    assert not profile.offered & DEPRECATE_EOF


def test_offered_is_what_the_server_and_our_own_login_have() -> None:
    offered = BackendProfile.of(ServerLogin(GREETING, AUTOCOMMIT, 0), COLLATIONS).offered
    assert offered & (DEPRECATE_EOF | EXTENDED_METADATA) == DEPRECATE_EOF | EXTENDED_METADATA
    assert offered & (PLUGIN_AUTH | CONNECT_ATTRS) == PLUGIN_AUTH | CONNECT_ATTRS  # the proxy's, not the server's
    assert not offered & SSL  # that is for the client's own line to say


def test_collations() -> None:
    profile = BackendProfile.of(ServerLogin(GREETING, AUTOCOMMIT, 0), COLLATIONS)
    assert (profile.charset_of(8), profile.charset_of(255)) == ("latin1", None)
    assert profile.supports("latin1")
    assert profile.supports("latin1", "latin1_swedish_ci")
    assert not profile.supports("latin1", "utf8mb4_general_ci")
    assert not profile.supports("ucs2")
