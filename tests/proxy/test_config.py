"""Configuration: defaults, precedence, and every mistake told at once without a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.model.option_values import NS_PER_SECOND
from proxy.config import Auth, Config, ConfigError, LogFormat, LogLevel, User, load, password_variable
from proxy.rights.account_rights import Right, TopicPermission, TopicRight
from proxy.transport.addresses import Address

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def read(tmp_path):
    """Loads a configuration from its text."""

    def read(text: str, flags=None, environment=None) -> Config:
        file = tmp_path / "config.yaml"
        file.write_text(text)
        return load(file, flags, environment or {})

    return read


@pytest.fixture
def mistakes(read):
    def mistakes(text: str, flags=None, environment=None) -> list[str]:
        with pytest.raises(ConfigError) as refused:
            read(text, flags, environment)
        assert str(refused.value) == "\n".join(refused.value.mistakes)
        return refused.value.mistakes

    return mistakes


def test_nothing_configured(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = load(environment={})
    assert config.listen == Address("127.0.0.1", 3307)
    assert config.backend.embedded
    assert config.auth_mode is Auth.PROXY
    assert [(user.name, user.passwordless) for user in config.accounts] == [("root", True)]
    assert config.limits.max_connections == 1000
    assert config.limits.unauthenticated_connections == 100
    assert config.limits.login_timeout == 10
    assert config.limits.max_packet_size == 64 * 1024 * 1024
    assert config.limits.lock_wait_timeout == 5
    assert config.limits.database_work == 8
    assert config.shutdown_grace == 10
    assert config.wait_for_backend == 0
    assert (config.log.level, config.log.format) == (LogLevel.INFO, LogFormat.TEXT)


def test_the_shipped_file_is_the_defaults(tmp_path, monkeypatch):
    shipped = load(ROOT / "config.yaml", environment={})
    monkeypatch.chdir(tmp_path)
    assert shipped == load(environment={})


def test_config_yaml_of_the_working_directory_is_taken(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text("listen: 127.0.0.1:4000\n")
    assert load(environment={}).listen.port == 4000


def test_an_empty_file_is_the_defaults(read):
    assert read("").listen.port == 3307
    assert read("users:\nqueue_defaults:\nlimits:\n").limits.max_connections == 1000


def test_flags_win_over_the_file_and_the_environment_over_both(read):
    text = "listen: 127.0.0.1:1\nbackend: sqlite:///file.db\nlog: {level: error}\n"
    config = read(text, {"listen": "127.0.0.1:2", "log.level": "debug"})
    assert (config.listen.port, config.log.level) == (2, LogLevel.DEBUG)
    config = read(text, {"backend": "sqlite:///flag.db"}, {"QUEUEGATE_BACKEND": "sqlite:///environment.db"})
    assert "environment.db" in str(config.backend.path)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0.0.0.0:1", Address("0.0.0.0", 1)),
        ("localhost:65535", Address("localhost", 65535)),
        ("[::1]:3307", Address("::1", 3307)),
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
    ],
)
def test_addresses(read, text, address):
    config = read(f"listen: '{text}'\nusers: [{{name: a, password: b}}]")
    assert config.listen == address
    assert str(config.listen) == text


@pytest.mark.parametrize(
    "text", ["3307", "127.0.0.1", "127.0.0.1:", ":3307", "a:b", "127.0.0.1:65536", "::1:3307", "[1, 2]"]
)
def test_what_is_no_address(mistakes, text):
    (mistake,) = mistakes(f"listen: {text!r}" if text[0] != "[" else f"listen: {text}")
    assert mistake.startswith("listen: ")
    assert "host:port" in mistake


@pytest.mark.parametrize("host", ["gate..example.com", "a" * 64 + ".example.com", ".example.com"])
def test_a_host_that_no_name_server_can_know(mistakes, host):
    (mistake,) = mistakes(f"listen: {host}:3307")
    assert mistake.startswith("listen: ") and "between dots is empty or longer" in mistake


@pytest.mark.parametrize("text", ["backend: {{ url }}", "users: [{name: app, password: {{ word }}}]", "{[a]: b}"])
def test_a_template_that_was_not_rendered(mistakes, text):
    (mistake,) = mistakes(text)
    assert "not valid YAML: a key is no text" in mistake


def test_every_mistake_is_told_with_its_key_and_what_is_allowed(mistakes):
    found = mistakes(
        """
listen: nowhere
colour: red
backend: redis://x
users:
  - {name: a}
  - {name: b, password: x, password_hash: y}
  - {name: c, pasword: x}
  - {name: d, password_hash: "1234"}
queue_defaults: {ack_wait: soon, batch_size: 0, colour: red}
limits: {max_connections: 0, login_timeout: never, max_packet_size: 3 elephants, colours: 3}
shutdown_grace: -1
log: {level: loud, format: xml}
"""
    )
    by_key = {mistake.split(": ")[0]: mistake for mistake in found}
    for key in (
        "listen", "colour", "backend", "users[0]", "users[1]", "users[2].pasword", "users[3]", "queue_defaults",
        "limits.max_connections", "limits.login_timeout", "limits.max_packet_size", "limits.colours", "shutdown_grace",
        "log.level", "log.format",
    ):  # fmt: skip
        assert key in by_key, (key, found)
    assert "allowed: " in by_key["colour"]
    assert "queue_defaults" in by_key["colour"]
    assert "password_env" in by_key["users[2].pasword"]
    assert "max_packet_size" in by_key["limits.colours"]
    assert "'debug', 'info', 'warning' or 'error'" in by_key["log.level"]
    for part in ("ack_wait", "batch_size", "colour"):
        assert part in by_key["queue_defaults"]


def test_mistakes_of_one_key_and_of_several_are_told_together(mistakes):
    """What contradicts a key that cannot be read itself is left out, since it may be the default that does."""
    found = mistakes(
        """
listen: 0.0.0.0:3307
limits: {filters: many}
tls: {key: own.key}
users: [{name: a, password: ''}, {name: a, password: b}]
workers: 2
"""
    )
    keys = {line.split(": ")[0] for line in found}
    assert keys == {"limits.filters", "tls.key", "users", "users[0]", "workers"}, found
    found = mistakes("backend: queue.db\nworkers: 2\npeers: {listen: '127.0.0.1:1'}\ntls: {mode: loud}\n")
    assert {line.split(": ")[0] for line in found} == {"backend", "tls.mode"}, found


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("users: {a: b}", "users: must be a list, each item on a line of its own that begins with '- '"),
        ("users: [1]", "users[0]: must be a mapping of keys to values"),
        ("users: [{password: x}]", "users[0].name: is missing"),
        ("users: [{name: '', password: x}]", "users[0].name: must not be empty"),
        ("users: [{name: 12, password: x}]", "users[0].name: must be text; quote it if it looks like a number"),
        (f"users: [{{name: {'n' * 33}, password: x}}]", "users[0].name: must have at most 32 characters"),
        ("limits: 3", "limits: must be a mapping of keys to values"),
        ("limits: {filters: 1.5}", "limits.filters: must be a whole number"),
        ("limits: {filters: 0}", "limits.filters: must be at least 1"),
        ("limits: {filters: 5000}", "limits.filters: must be at most 1000"),
        ("limits: {login_timeout: 0.01}", "limits.login_timeout: must be at least 0.1"),
        ("queues: {allow_drop_table: 3}", "queues.allow_drop_table: must be true or false"),
        ("peers: 3", "peers: must be a mapping of keys to values"),
        ("auth: nobody", "auth: must be one of 'backend' or 'proxy'"),
        ("backend: ''", "backend: not a URL; give sqlite:///path/queue.db or mysql://user:password@host:3306/database"),
    ],
)
def test_a_mistake_is_told_in_words_of_our_own(mistakes, text, line):
    assert line in mistakes(text)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("lissen: 127.0.0.1:1", "listen"),
        ("limits: {max_connection: 1}", "max_connections"),
        ("users: [{name: a, pasword: x}]", "password"),
        ("queue_defaults: {ackwait: 1}", "ack_wait"),
    ],
)
def test_an_unknown_key_names_the_one_that_was_meant(mistakes, text, meant):
    assert f"did you mean {meant}?" in mistakes(text)[0]


def test_no_mistake_repeats_a_secret(mistakes):
    secret = "hunter2"
    texts = (
        f"users: [{{name: a, password: {secret}, password_hash: {secret}}}]",
        f"users: [{{name: a, passwort: {secret}}}]",
        f"users: [{{name: a, password: [{secret}]}}]",
        f"users: [{{name: a, password_hash: {secret}}}]",
        f"users: {secret}",
        f"users: [{secret}]",
        f"backend: mysql://root:{secret}@host:port/db",
        f"backend: msql://root:{secret}@host:1/db",
        f"backend: 'mysql://root:{secret}@host:1/db?colour=red'",
        f"backend: 'mysql://root:{secret}@x@host:1/db'",
        f"backend: 'mysql://root:{secret}/x@host:1/db'",
        f"users: [{{name: a, password: '{secret}]",
        f"users: [{{name: a, password: {secret}}}]\nauth: [{secret}]",
        f"{{{secret}",
    )
    for text in texts:
        assert secret not in "\n".join(mistakes(text)), text


def test_no_config_shows_a_secret(read):
    config = read("users: [{name: a, password: hunter2}]")
    assert "hunter2" not in repr(config) + str(config)
    config = read("", {"backend": "mysql://root:hunter2@127.0.0.1:3306/db"})
    assert "hunter2" not in repr(config) + str(config)


def test_yaml_mistakes_are_told_by_place(mistakes):
    (mistake,) = mistakes("listen: 127.0.0.1:1\nlog: {level: info\n")
    assert ":3:1: not valid YAML" in mistake
    (mistake,) = mistakes("log: {level: info}\nlog: {level: debug}\n")
    assert ":2:1" in mistake
    assert "'log' is given twice" in mistake
    (mistake,) = mistakes("- a\n- b\n")
    assert "allowed: listen, " in mistake
    (mistake,) = mistakes("!!python/object/apply:os.system ['true']")
    assert "not valid YAML" in mistake


@pytest.mark.parametrize("text", ["a: " + "[" * 3000, "a: &a {b: *a}"])
def test_yaml_without_end_is_a_mistake(mistakes, text):
    (mistake,) = mistakes(text)
    assert "not valid YAML" in mistake


def test_no_address_is_given_twice(mistakes, read):
    text = "listen: 127.0.0.1:3307\nadmin: {listen: '127.0.0.1:3307'}\nconsole: {listen: '127.0.0.1:3307'}\n"
    assert mistakes(text) == [
        f"{key}.listen: 127.0.0.1:3307 is already the address of listen" for key in ("admin", "console")
    ]
    assert read("listen: 127.0.0.1:0\nadmin: {listen: '127.0.0.1:0'}\n").admin.listen == ("127.0.0.1", 0)


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "missing.yaml", environment={})
    with pytest.raises(IsADirectoryError):
        load(tmp_path, environment={})


def test_a_huge_file_is_not_read(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_bytes(b"#" * (2 << 20))
    with pytest.raises(ConfigError, match="megabyte"):
        load(file, environment={})


def test_bytes_that_are_no_text(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_bytes(b"listen: \xff\xfe\x00")
    with pytest.raises(ConfigError, match="not valid YAML"):
        load(file, environment={})


def test_queue_defaults(read):
    config = read("queue_defaults: {ack_wait: 5s, max_backoff: 2h, batch_size: 7, purge_after: 0.5}")
    assert config.queue_defaults.ack_wait_ns == 5 * NS_PER_SECOND
    assert config.queue_defaults.max_backoff_ns == 7200 * NS_PER_SECOND
    assert config.queue_defaults.batch_size == 7
    assert config.queue_defaults.purge_after_ns == NS_PER_SECOND // 2
    assert read("queue_defaults: {min_backoff: }").queue_defaults.min_backoff_ns == NS_PER_SECOND
    assert read("queue_defaults: {min_backoff: ack_wait}").queue_defaults.min_backoff_ns is None


def test_queue_defaults_that_contradict_each_other(mistakes):
    (mistake,) = mistakes("queue_defaults: {min_backoff: 2h, max_backoff: 1h}")
    assert "max_backoff" in mistake
    (mistake,) = mistakes("queue_defaults: {message_cols: 'id|a'}")
    assert "CREATE QUEUE" in mistake
    (mistake,) = mistakes("queue_defaults: {dead_letter: lost}")
    assert "CREATE QUEUE" in mistake


@pytest.mark.parametrize(
    ("text", "value"),
    [("65536", 65536), ("512KiB", 524288), ("'1 GiB'", 1 << 30), ("64mib", 64 << 20), ("70000B", 70000)],
)
def test_sizes(read, text, value):
    assert read(f"limits: {{max_packet_size: {text}}}").limits.max_packet_size == value


@pytest.mark.parametrize(("text", "value"), [("500ms", 0.5), ("2", 2.0), ("1m", 60.0), ("1.5", 1.5)])
def test_durations(read, text, value):
    assert read(f"limits: {{login_timeout: {text}}}").limits.login_timeout == value


@pytest.mark.parametrize(
    "key", ["max_connections: '10'", "max_connections: true", "login_timeout: true", "max_packet_size: 1.5"]
)
def test_values_of_another_type_are_not_bent(mistakes, key):
    (mistake,) = mistakes(f"limits: {{{key}}}")
    assert mistake.startswith(f"limits.{key.split(':')[0]}: ")


def test_passwords_from_the_environment(read):
    text = "users: [{name: app, password_env: APP_PW}, {name: rep-orts, password: file}]"
    config = read(text, None, {"APP_PW": "one", "QUEUEGATE_PASSWORD_REP_ORTS": "two"})
    assert [user.password.get_secret_value() for user in config.accounts] == ["one", "two"]
    assert all(user.password_env is None for user in config.accounts)
    config = read(text, None, {"QUEUEGATE_PASSWORD_APP": "three", "QUEUEGATE_PASSWORD_REP_ORTS": "two"})
    assert config.accounts[0].password.get_secret_value() == "three"


def test_a_password_variable_that_is_missing_or_nobodys(mistakes):
    text = "users: [{name: app, password_env: APP_PW}]"
    found = mistakes(text, None, {"QUEUEGATE_PASSWORD_AP": "x"})
    assert found[0].startswith("users[0].password_env: ")
    assert "APP_PW" in found[0]
    assert found[1].startswith("QUEUEGATE_PASSWORD_AP: no such user")


def test_other_variables_with_the_prefix_are_not_ours(read):
    """Kubernetes sets QUEUEGATE_PORT and the like for a service of that name."""
    read("", None, {"QUEUEGATE_PORT": "tcp://10.0.0.1:3307", "QUEUEGATE_SERVICE_HOST": "10.0.0.1"})


def test_root_with_a_password_needs_only_the_environment(read):
    config = read("listen: 0.0.0.0:3307", None, {"QUEUEGATE_PASSWORD_ROOT": "x"})
    assert [(user.name, user.passwordless) for user in config.accounts] == [("root", False)]


@pytest.mark.parametrize("address", ["0.0.0.0:3307", "'[::]:3307'", "10.0.0.1:3307", "example.com:3307"])
def test_no_users_only_on_loopback(mistakes, read, address):
    (mistake,) = mistakes(f"listen: {address}")
    assert mistake.startswith("listen: ")
    assert "no users" in mistake
    (mistake,) = mistakes(f"listen: {address}\nusers: [{{name: a, password: ''}}]")
    assert mistake.startswith("users[0]: an empty password")
    read(f"listen: {address}\nusers: [{{name: a, password: x}}]")


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.9.9.9:1", "localhost:1", "'[::1]:1'"])
def test_loopback(read, address):
    assert read(f"listen: {address}").accounts[0].passwordless


def test_users_are_unique_and_named(mistakes):
    (mistake,) = mistakes("users: [{name: a, password: x}, {name: a, password: y}]")
    assert "'a' is listed twice" in mistake
    (mistake,) = mistakes("users: [{name: '', password: x}]")
    assert mistake.startswith("users[0].name: ")


def test_hashes(read, mistakes):
    salted = "$A$005$abcdefghijABCDEFGHIJ" + "x" * 43
    assert read(f"users: [{{name: a, password_hash: '{salted}'}}]").accounts[0].password_hash is not None
    for wrong in ("*12", "$A$005$short", "plain"):
        (mistake,) = mistakes(f"users: [{{name: a, password_hash: '{wrong}'}}]")
        assert "hash-password" in mistake


def test_a_hash_is_a_native_hash(read):
    digest = "*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19"
    (user,) = read(f"users: [{{name: a, password_hash: '{digest}'}}]").accounts
    assert user.password_hash.get_secret_value() == digest
    assert not user.passwordless


def test_who_authenticates(read, mistakes):
    mysql = "backend: mysql://root@127.0.0.1:3306/db\n"
    assert read(mysql).auth_mode is Auth.BACKEND
    assert read(mysql).accounts == ()
    assert read(mysql + "listen: 0.0.0.0:3307").auth_mode is Auth.BACKEND
    assert read(mysql + "auth: backend").auth_mode is Auth.BACKEND
    assert mistakes(mysql + "auth: proxy")[0].startswith("users: auth: proxy with a mysql backend needs users")
    assert read(mysql + "auth: proxy\nusers: [{name: a, password: b}]").auth_mode is Auth.PROXY
    assert mistakes("auth: backend")[0].startswith("auth: backend needs a mysql backend")
    assert mistakes("auth: nobody")[0].startswith("auth: must be one of 'backend' or 'proxy'")
    assert mistakes(mysql + "users: [{name: a, password: b}]")[0].startswith("users: not used with a mysql backend")


def test_unauthenticated_within_all(mistakes):
    (mistake,) = mistakes("limits: {max_connections: 10, unauthenticated_connections: 11}")
    assert mistake.startswith("limits.unauthenticated_connections: ")


def test_a_config_cannot_be_changed(read):
    with pytest.raises(ValueError, match="frozen"):
        read("").limits.max_connections = 3


def test_password_variables():
    assert password_variable("app-1.x") == "QUEUEGATE_PASSWORD_APP_1_X"
    assert User(name="größe", password_env="X").name == "größe"
    assert password_variable("größe") == "QUEUEGATE_PASSWORD_GR__E"


def test_rights_of_users(read, mistakes):
    user = "users: [{{name: a, password_env: A, queues: {}, admin: true}}]"
    (a,) = read(user.format("{orders: [enqueue, receive], 'x.*': settle}"), environment={"A": "secret"}).users
    assert a.queues == {"orders": {Right.ENQUEUE, Right.RECEIVE}, "x.*": {Right.SETTLE}}
    assert a.password.get_secret_value() == "secret"  # what comes from the environment takes nothing away
    assert a.may_kill_others
    # An empty value must not come to the same as none at all, which would be everything.
    for empty in ("", "{}", "[]", "''"):
        (mistake,) = mistakes(user.format(empty))
        assert mistake.startswith("users[0].queues: is not a mapping"), mistake
    for wrong in ("{q: []}", "{q: all}", "{q: [enqueue, drop]}", "{q: {}}", "{q: }"):
        (mistake,) = mistakes(user.format(wrong))
        assert mistake == "users[0].queues: 'q' takes a list of enqueue, receive, settle"
    for wrong in ("a.b.c", "' '", "a.", "'`a`'"):
        (mistake,) = mistakes(user.format(f"{{{wrong}: [enqueue]}}"))
        assert "is not the name of a queue" in mistake
    server = (
        "backend: mysql://root@127.0.0.1:3306/\nauth: proxy\nusers: [{name: a, password: b, queues: {q: [settle]}}]"
    )
    assert mistakes(server)[0].startswith("users[0].queues: 'q' needs its database before it")


def test_rights_on_topics(read, mistakes):
    user = "users: [{{name: a, password: b, topics: {}}}]"
    (a,) = read(user.format("{orders: [publish, consume:billing], 'x.*': read}")).users
    billing = TopicPermission(TopicRight.CONSUME, "billing")
    assert a.topics == {
        "orders": {TopicPermission(TopicRight.PUBLISH), billing},
        "x.*": {TopicPermission(TopicRight.READ)},
    }
    assert a.queues is None
    for empty in ("", "{}", "[]", "''"):
        (mistake,) = mistakes(user.format(empty))
        assert mistake.startswith("users[0].topics: is not a mapping of topics to rights"), mistake
    for wrong in ("{t: []}", "{t: all}", "{t: [publish, consume]}", "{t: [enqueue]}", "{t: [{consume: billing}]}"):
        (mistake,) = mistakes(user.format(wrong))
        assert mistake == "users[0].topics: 't' takes a list of publish, read, consume:GROUP, manage:GROUP"
    assert "is not the name of a topic" in mistakes(user.format("{a.b.c: [publish]}"))[0]
    server = (
        "backend: mysql://root@127.0.0.1:3306/\nauth: proxy\nusers: [{name: a, password: b, topics: {t: [publish]}}]"
    )
    assert mistakes(server)[0].startswith("users[0].topics: 't' needs its database before it")


def test_who_may_kill_others(read):
    root, other = read("users: [{name: root, password: a}, {name: b, password: a}]").users
    assert root.may_kill_others
    assert not other.may_kill_others
    assert not read("users: [{name: root, password: a, admin: false}]").users[0].may_kill_others


def test_peers(read, mistakes):
    assert read("").peers.enabled and read("").peers.listen is None
    assert not read("peers: false").peers.enabled
    given = read("backend: mysql://u@h/d\npeers: {listen: 10.0.0.1:4000, advertise: 'gate1:4000'}").peers
    assert (given.listen, given.advertise) == (Address("10.0.0.1", 4000), Address("gate1", 4000))
    secret = read("peers: {secret: one}", environment={"QUEUEGATE_PEERS_SECRET": "two"}).peers.secret
    assert secret is not None and secret.get_secret_value() == "two"
    for text, enabled in {"": True, "peers:": True, "peers: true": True, "peers: false": False}.items():
        peers = read(text, environment={"QUEUEGATE_PEERS_SECRET": "two"}).peers
        assert peers.enabled is enabled and peers.secret.get_secret_value() == "two"
    assert "peers.lisen: unknown key" in mistakes("peers: {lisen: 10.0.0.1:4000}")[0]
    assert "served by one proxy" in mistakes("peers: {listen: 10.0.0.1:4000}")[0]


def test_several_workers_need_linux(read, mistakes, monkeypatch):
    text = "backend: mysql://root@127.0.0.1/shop\nworkers: 2\n"
    assert read(text).workers == 2
    monkeypatch.setattr("proxy.config.sys.platform", "darwin")
    assert [found.split(":")[0] for found in mistakes(text)] == ["workers"]
    assert read("backend: mysql://root@127.0.0.1/shop\n").workers == 1
