"""Configuration: what may be set, how it is read, and every mistake in it named at once.

Precedence: the file, over it the command line, over both the environment for secrets. `load` returns a Config that is
valid as a whole or raises ConfigError with one line for each mistake, key path first. A message never repeats a
value that may be secret: only the key and what is allowed there.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError, model_validator

from engine.backend.url import BackendUrl
from engine.model.filter_limits import FILTERS_MAX, FILTERS_PER_ACCOUNT_MAX
from engine.model.options import NEW_QUEUE, QueueOptions
from engine.topics.retention import PERIOD_SECONDS as RETENTION_SECONDS
from proxy.config_mistakes import mistake
from proxy.config_values import (
    Seconds,
    Size,
    read_address,
    read_backend,
    read_optional_address,
    read_peers,
    read_public_url,
    read_queue_options,
    read_queue_rights,
    read_tls_mode,
    read_topic_rights,
)
from proxy.login.accounts import Account, InvalidPasswordHash
from proxy.login.backend_tls import backend_tls_mistake
from proxy.login.client_tls import ClientTls, InvalidCertificate, TlsMode, load_certificate
from proxy.rights.account_rights import InvalidPattern, Right, TopicPermission, name_pattern
from proxy.transport.addresses import Address

DEFAULT_FILE = Path("config.yaml")
DEFAULT_LISTEN = "127.0.0.1:3307"
DEFAULT_BACKEND = "sqlite:///data/queue.db"
BACKEND_VARIABLE = "QUEUEGATE_BACKEND"
PASSWORD_VARIABLE = "QUEUEGATE_PASSWORD_"
PEERS_SECRET_VARIABLE = "QUEUEGATE_PEERS_SECRET"

_MAX_FILE_BYTES = 1 << 20  # a megabyte holds ten thousand users; more is the wrong file


class ConfigError(Exception):
    """The configuration is not valid; `mistakes` names each with its key path."""

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = mistakes


class Auth(Enum):
    """What checks passwords: the database behind the proxy, or the proxy by its user list."""

    BACKEND = "backend"
    PROXY = "proxy"


class LogLevel(Enum):
    """The least severe records that are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(Enum):
    """How a record is written: key=value pairs, or one JSON object a line."""

    TEXT = "text"
    JSON = "json"


class _Section(BaseModel):
    """A part of the file: unknown keys refused, nothing coerced, immutable, inputs left out of errors."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, hide_input_in_errors=True, arbitrary_types_allowed=True
    )


class User(_Section):
    """An account that the proxy itself checks. `password_env` has been read by the time a Config exists."""

    name: str = Field(min_length=1, max_length=32)  # 32 characters: MySQL's own bound on an account name
    password: SecretStr | None = None
    password_env: str | None = Field(default=None, min_length=1)
    password_hash: SecretStr | None = None
    queues: Annotated[dict[str, frozenset[Right]] | None, BeforeValidator(read_queue_rights)] = None
    topics: Annotated[dict[str, frozenset[TopicPermission]] | None, BeforeValidator(read_topic_rights)] = None
    admin: bool | None = None

    @model_validator(mode="after")
    def _one_secret(self) -> Self:
        if sum(value is not None for value in (self.password, self.password_env, self.password_hash)) != 1:
            raise ValueError("needs exactly one of password, password_env, password_hash")
        if self.password_hash is not None:
            try:
                Account.with_hash(self.name, self.password_hash.get_secret_value())
            except InvalidPasswordHash as error:
                raise ValueError(f"password_hash is {error}; `queuegate hash-password` prints one") from None
        return self

    @property
    def may_kill_others(self) -> bool:
        """`admin`; left out, only `root` may, as MySQL's root may."""
        return self.name == "root" if self.admin is None else self.admin

    @property
    def passwordless(self) -> bool:
        """True where anyone who knows the name gets in."""
        return self.password is not None and not self.password.get_secret_value()


class Limits(_Section):
    """Bounds on what clients may take. docs/operations.md explains how to size them."""

    max_connections: int = Field(default=1000, ge=1, le=100_000)
    unauthenticated_connections: int = Field(default=100, ge=1, le=100_000)
    unauthenticated_per_address: int = Field(default=50, ge=1, le=100_000)
    connection_errors: int = Field(default=1000, ge=0, le=1_000_000)
    max_user_connections: int = Field(default=0, ge=0, le=100_000)
    login_failures: int = Field(default=100, ge=0, le=1_000_000)
    login_timeout: Seconds = Field(default=10.0, ge=0.1, le=3600)
    idle_timeout: Seconds = Field(default=28800.0, ge=0, le=31_536_000)  # default and most are those of wait_timeout
    max_packet_size: Size = Field(default=64 << 20, ge=64 << 10, le=1 << 30)  # MySQL's own largest is 1 GiB
    lock_wait_timeout: Seconds = Field(default=5.0, ge=0.01, le=3600)
    statement_time: Seconds = Field(default=60.0, ge=0, le=86_400)
    idle_transaction: Seconds = Field(default=3.0, ge=0, le=86_400)  # shorter than others wait for their turn to write
    database_work: int = Field(default=8, ge=1, le=1000)
    transactions_per_account: int = Field(default=500, ge=0, le=100_000)
    filters: int = Field(default=FILTERS_MAX, ge=1, le=1000)
    filters_per_account: int = Field(default=FILTERS_PER_ACCOUNT_MAX, ge=1, le=1000)


class Tls(_Section):
    """Encrypted connections to clients. The files are PEM; the key may be in the certificate's."""

    mode: Annotated[TlsMode | None, BeforeValidator(read_tls_mode)] = None
    certificate: str | None = Field(default=None, min_length=1)
    key: str | None = Field(default=None, min_length=1)

    @property
    def mode_in_force(self) -> TlsMode:
        """`mode`; left out, TLS is offered where there is a certificate."""
        return self.mode or (TlsMode.OFF if self.certificate is None else TlsMode.OFFERED)

    def load(self) -> ClientTls:
        """The files, read. Raises ConfigError where they have become unusable since the configuration was checked."""
        try:
            return ClientTls(self.mode_in_force, self.certificate, self.key)
        except InvalidCertificate as error:
            raise ConfigError([_tls_mistake(error)]) from None


class PeersConfig(_Section):
    """Links to other proxies of the same database. `peers: false` is the same as `enabled: false`."""

    enabled: bool = True
    listen: Annotated[Address | None, BeforeValidator(read_address)] = None
    advertise: Annotated[Address | None, BeforeValidator(read_address)] = None
    secret: SecretStr | None = None


class Queues(_Section):
    """What may be done with queues. `allow_drop_table`: DROP TABLE and TRUNCATE TABLE, as with any other table."""

    allow_drop_table: bool = False


class Log(_Section):
    """What is logged and how."""

    level: Annotated[LogLevel, Field(strict=False)] = LogLevel.INFO
    format: Annotated[LogFormat, Field(strict=False)] = LogFormat.TEXT


class Admin(_Section):
    """The port for numbers and health, which needs no password."""

    listen: Annotated[Address | None, BeforeValidator(read_optional_address)] = None


class Console(_Section):
    """The web console. A listen address that others reach needs TLS, or a proxy before it that has it."""

    listen: Annotated[Address | None, BeforeValidator(read_optional_address)] = None
    certificate: str | None = Field(default=None, min_length=1)
    key: str | None = Field(default=None, min_length=1)
    public_url: Annotated[str | None, BeforeValidator(read_public_url)] = None
    behind_proxy: bool = False


class Config(_Section):
    """Everything that can be set. Times are seconds, sizes bytes."""

    listen: Annotated[Address, BeforeValidator(read_address)] = Field(default=DEFAULT_LISTEN, validate_default=True)
    backend: Annotated[BackendUrl, BeforeValidator(read_backend)] = Field(
        default=DEFAULT_BACKEND, validate_default=True
    )
    auth: Annotated[Auth | None, Field(strict=False)] = None
    users: tuple[User, ...] = Field(default=(), strict=False)
    tls: Tls = Tls()
    queue_defaults: Annotated[QueueOptions, BeforeValidator(read_queue_options)] = NEW_QUEUE
    queues: Queues = Queues()
    limits: Limits = Limits()
    admin: Admin = Admin()
    console: Console = Console()
    workers: int = Field(default=1, ge=1, le=64)
    peers: Annotated[PeersConfig, BeforeValidator(read_peers)] = PeersConfig()
    wait_for_backend: Seconds = Field(default=0.0, ge=0, le=3600)
    shutdown_grace: Seconds = Field(default=10.0, ge=0, le=3600)
    retention_period: Seconds = Field(default=RETENTION_SECONDS, ge=0.1, le=3600)
    log: Log = Log()

    @property
    def auth_mode(self) -> Auth:
        """`auth`, which is the backend's business when there is a server behind, else the proxy's."""
        if self.auth is not None:
            return self.auth
        return Auth.PROXY if self.backend.embedded else Auth.BACKEND

    @property
    def own_database(self) -> str | None:
        """The database that is meant where a name has none before it."""
        return "main" if self.backend.embedded else self.backend.database

    @property
    def accounts(self) -> tuple[User, ...]:
        """The users that may log in; with none configured `root` with an empty password."""
        if self.auth_mode is Auth.BACKEND:
            return ()
        return self.users or (User(name="root", password=SecretStr("")),)


def load(
    path: Path | None = None,
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Config:
    """The configuration from a file, the command line and the environment.

    Args:
        path: the file; None takes `config.yaml` of the working directory where there is one, else the defaults.
        flags: key paths and values of the command line, such as {"listen": "...", "log.level": "debug"}.
        environment: where secrets are looked up.

    Raises:
        OSError: the file cannot be read.
        ConfigError: with every mistake that was found.
    """
    data = _read(path)
    for key, value in (flags or {}).items():
        _put(data, key.split("."), value)
    if BACKEND_VARIABLE in environment:
        data["backend"] = environment[BACKEND_VARIABLE]
    if PEERS_SECRET_VARIABLE in environment:
        _put(data, ["peers", "secret"], environment[PEERS_SECRET_VARIABLE])
    config, mistakes, unusable = _validated(data)
    config = config.model_copy(update={"users": _with_secrets(config, environment, mistakes, unusable)})
    # Of a key that has a mistake itself, the default is in the configuration: it contradicts nothing.
    mistakes += [mistake.text for mistake in _contradictions(config) if not unusable.intersection(mistake.keys)]
    if mistakes:
        raise ConfigError(mistakes)
    return config


def _validated(data: dict[str, Any]) -> tuple[Config, list[str], frozenset[str]]:
    """The configuration of what can be read, the mistakes in the rest, and the top-level keys of the rest."""
    try:
        return Config.model_validate(data), [], frozenset()
    except ValidationError as error:
        errors = error.errors(include_input=False, include_url=False)
    unusable = frozenset(str(one["loc"][0]) for one in errors)
    rest = {key: value for key, value in data.items() if key not in unusable}
    return Config.model_validate(rest), [mistake(one, Config) for one in errors], unusable


class _Loader(yaml.SafeLoader):
    """YAML that refuses a key given twice, where the standard loader uses the last without an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key.value, str):
                problem = "a key is no text; quote a value that begins with a brace"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            if key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"the key '{key.value}' is given twice", problem_mark=key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def file_of(path: Path | None) -> Path | None:
    """The file that `load` reads, from the same argument; None where there is none."""
    return DEFAULT_FILE if path is None and DEFAULT_FILE.exists() else path


def _read(path: Path | None) -> dict[str, Any]:
    file = file_of(path)
    return {} if file is None else contents(file)


def contents(file: Path) -> dict[str, Any]:
    """The contents of a configuration file, not yet validated. Raises OSError, ConfigError."""
    with file.open("rb") as stream:
        text = stream.read(_MAX_FILE_BYTES + 1)
    if len(text) > _MAX_FILE_BYTES:
        raise ConfigError([f"{file}: larger than a megabyte; this is not a queuegate configuration"])
    try:
        data = yaml.load(text, _Loader)
        data = _without_empty(data) if isinstance(data, dict) else data
    except yaml.MarkedYAMLError as error:
        # The parser's own text quotes the line, which may hold a password.
        where = f":{error.problem_mark.line + 1}:{error.problem_mark.column + 1}" if error.problem_mark else ""
        raise ConfigError([f"{file}{where}: not valid YAML: {error.problem}"]) from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise ConfigError([f"{file}: not valid YAML"]) from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ConfigError([f"{file}: not a mapping of keys; allowed: {', '.join(Config.model_fields)}"])
    return data


def _without_empty(data: dict[Any, Any]) -> dict[str, Any]:
    """A mapping without the keys that were left empty: those have their defaults."""
    return {
        str(key): _without_empty(value) if isinstance(value, dict) else value
        for key, value in data.items()
        if value is not None
    }


def _put(data: dict[str, Any], keys: list[str], value: object) -> None:
    *sections, last = keys
    for section in sections:
        inner = data.setdefault(section, {})
        if section == "peers":
            inner = data[section] = read_peers(inner)  # it may be a bare true or false
        if not isinstance(inner, dict):
            return  # validation will name the section's own mistake
        data = inner
    data[last] = value


def password_variable(user: str) -> str:
    """The environment variable that sets this user's password."""
    return PASSWORD_VARIABLE + re.sub(r"\W", "_", user, flags=re.ASCII).upper()


def _with_secrets(
    config: Config, environment: Mapping[str, str], mistakes: list[str], unusable: frozenset[str]
) -> tuple[User, ...]:
    """The users with their passwords from the environment."""
    variables = {name for name in environment if name.startswith(PASSWORD_VARIABLE)}
    users = list(config.users)
    if not users and config.auth_mode is Auth.PROXY and password_variable("root") in variables:
        users = [User(name="root", password=SecretStr(""))]
    for index, user in enumerate(users):
        variable = password_variable(user.name)
        source = variable if variable in variables else user.password_env
        variables.discard(variable)
        if source is None:
            continue
        if source not in environment:
            mistakes.append(f"users[{index}].password_env: the environment variable {source} is not set")
            continue
        secret = {"password": SecretStr(environment[source]), "password_env": None, "password_hash": None}
        users[index] = user.model_copy(update=secret)
    if config.auth_mode is Auth.PROXY and not unusable.intersection(("users", "auth", "backend")):
        mistakes += [
            f"{name}: no such user; the part after {PASSWORD_VARIABLE} is a user's name" for name in sorted(variables)
        ]
    return tuple(users)


class _Contradiction(NamedTuple):
    """What is wrong with the values of several keys, each valid alone. `keys`: top-level ones."""

    keys: tuple[str, ...]
    text: str


def _contradictions(config: Config) -> Iterator[_Contradiction]:
    """What is wrong with values that are each valid alone."""
    for text in _of_users(config):
        yield _Contradiction(("users", "auth", "backend", "listen"), text)
    for text in _tls_mistakes(config.tls):
        yield _Contradiction(("tls",), text)
    for text in console_mistakes(config.console):
        yield _Contradiction(("console",), text)
    for text in _of_addresses(config):
        yield _Contradiction(("listen", text.partition(".")[0]), text)
    for text in _of_the_backend(config):
        yield _Contradiction(("backend", text.partition(":")[0]), text)
    if config.limits.unauthenticated_connections > config.limits.max_connections:
        yield _Contradiction(("limits",), "limits.unauthenticated_connections: more than limits.max_connections")


def _of_users(config: Config) -> Iterator[str]:
    """The users, the address, and what checks passwords."""
    names = [user.name for user in config.users]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"users: '{name}' is listed twice"
    if config.auth is Auth.PROXY and not config.backend.embedded and not config.users:
        yield "users: auth: proxy with a mysql backend needs users; none are implied before a server"
    for index, user in enumerate(config.users):
        for key, patterns in (("queues", user.queues), ("topics", user.topics)):
            try:
                for pattern in patterns or ():
                    name_pattern(pattern, config.own_database)
            except InvalidPattern as error:
                yield f"users[{index}].{key}: {error}"
    if config.auth is Auth.BACKEND and config.backend.embedded:
        yield "auth: backend needs a mysql backend; the embedded one keeps no accounts, say proxy and list users"
    if config.auth_mode is Auth.BACKEND:
        if config.users:
            yield "users: not used with a mysql backend whose own accounts log in; remove the list, or say auth: proxy"
    elif not config.listen.loopback:
        if not config.users:
            yield f"listen: {config.listen} can be reached from other machines, but no users are configured"
        for index, user in enumerate(config.users):
            if user.passwordless:
                yield f"users[{index}]: an empty password is only for a loopback address, not {config.listen}"


def _of_addresses(config: Config) -> Iterator[str]:
    """Each is bound once. With port 0 the system chooses one that is free."""
    bound = {config.listen: "listen"}
    addresses = (config.admin.listen, config.console.listen, config.peers.listen)
    for key, address in zip(("admin.listen", "console.listen", "peers.listen"), addresses, strict=True):
        if address is not None and address.port and (other := bound.setdefault(address, key)) != key:
            yield f"{key}: {address} is already the address of {other}"


def _of_the_backend(config: Config) -> Iterator[str]:
    """What does not go with the backend."""
    if (wrong := backend_tls_mistake(config.backend)) is not None:
        yield f"backend: {wrong}"
    if config.workers > 1 and config.backend.embedded:
        yield "workers: the embedded backend is served by one process; leave it at 1, or use a mysql backend"
    if config.workers > 1 and sys.platform != "linux":
        yield "workers: more than one needs Linux, whose kernel names the process at a socket's end; leave it at 1"
    if config.backend.embedded and (config.peers.listen is not None or config.peers.advertise is not None):
        yield "peers: the embedded backend is served by one proxy; there are no others to be found"


def console_mistakes(console: Console) -> Iterator[str]:
    """What does not go together in the console's settings."""
    listen = console.listen
    if listen is not None and not listen.loopback and console.certificate is None and not console.behind_proxy:
        yield (
            f"console.listen: {listen} can be reached from other machines, and passwords would go there in clear text:"
            " give console.certificate, or say console.behind_proxy: true where a proxy with TLS stands before it"
        )
    if console.certificate is None and console.key is not None:
        yield "console.key: given without console.certificate"
    if console.certificate is not None:
        try:
            load_certificate(console.certificate, console.key)
        except InvalidCertificate as error:
            yield f"console.{'key' if error.in_key else 'certificate'}: {error}"


def _tls_mistakes(tls: Tls) -> Iterator[str]:
    if tls.certificate is None:
        if tls.key is not None:
            yield "tls.key: given without tls.certificate"
        if tls.mode_in_force is not TlsMode.OFF:
            yield f"tls.mode: {tls.mode_in_force.value} needs tls.certificate"
    elif tls.mode_in_force is not TlsMode.OFF:
        try:
            load_certificate(tls.certificate, tls.key)
        except InvalidCertificate as error:
            yield _tls_mistake(error)


def _tls_mistake(error: InvalidCertificate) -> str:
    return f"tls.{'key' if error.in_key else 'certificate'}: {error}"
