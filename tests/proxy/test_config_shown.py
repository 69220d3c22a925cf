"""The configuration as it is shown: every key, nothing secret."""

from __future__ import annotations

from proxy.config import load
from proxy.config_shown import settings_of

USERS = [{"name": "root", "password": "hush2"}, {"name": "shop", "password": "hush3", "queues": {"a": ["settle"]}}]


def shown(**given):
    return {name: (value, configured) for name, value, configured in settings_of(load(None, given, {}))}


def test_every_key_with_its_value():
    found = shown(shutdown_grace=3, limits={"idle_timeout": 7.5}, queue_defaults={"max_attempts": 7})
    assert found["shutdown_grace"] == ("3", 1) and found["workers"] == ("1", 0)
    assert found["limits.idle_timeout"] == ("7.5", 1) and found["limits.login_failures"] == ("100", 0)
    assert found["queue_defaults.max_attempts"] == ("7", 1) and found["queue_defaults.batch_size"] == ("100", 0)
    assert found["listen"] == ("127.0.0.1:3307", 0) and found["log.level"] == ("info", 0)
    assert found["queues.allow_drop_table"] == ("false", 0) and found["tls.key"] == (None, 0)


def test_nothing_secret():
    found = shown(
        backend="mysql://app:hush1@db:3306/shop?ssl=required",
        auth="proxy",
        users=USERS,
        peers={"secret": "hush4" * 8},
    )
    assert "hush" not in str(found)
    assert found["users"] == ("root, shop", 1) and found["backend"] == ("mysql://app:***@db:3306/shop", 1)
    assert found["peers.secret"] == ("***", 1) and found["auth"] == ("proxy", 1)
