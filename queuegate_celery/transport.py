"""What Kombu calls: connections to queuegate by the scheme `queuegate`."""

from __future__ import annotations

from typing import Any

import pymysql
from amqp.exceptions import IrrecoverableConnectionError
from kombu.transport import base

from queuegate_celery.channel import Channel
from queuegate_celery.errors import (
    CHANNEL_ERRORS,
    CONNECTION_ERRORS,
    RECOVERABLE_CHANNEL_ERRORS,
    RECOVERABLE_CONNECTION_ERRORS,
)
from queuegate_celery.exchanges import KINDS
from queuegate_celery.link import Link
from queuegate_celery.settings import DEFAULT_PORT, SettingError, Settings, address_of


class Management(base.Management):
    """The bindings, for tools."""

    def get_bindings(self) -> list[dict[str, str]]:
        with self.transport.client.channel() as channel:
            return [
                {"destination": queue, "source": exchange, "routing_key": key}
                for queue, exchange, key in channel.list_bindings()
            ]


class Transport(base.Transport):
    """A connection is a Link."""

    Management = Management

    default_port = DEFAULT_PORT
    driver_type = "queuegate"
    driver_name = "PyMySQL"

    connection_errors = CONNECTION_ERRORS
    channel_errors = CHANNEL_ERRORS
    recoverable_connection_errors = RECOVERABLE_CONNECTION_ERRORS
    recoverable_channel_errors = RECOVERABLE_CHANNEL_ERRORS

    implements = base.Transport.implements.extend(asynchronous=True, heartbeats=False, exchange_type=KINDS)

    _link: Link | None = None

    def driver_version(self) -> str:
        return str(pymysql.__version__)

    def establish_connection(self) -> Link:
        if self._link is not None:
            self._link.close()  # Kombu does not close a failed one; its messages are to go to others now
        try:
            self._link = Link(address_of(self.client), Settings.of(self.client.transport_options or {}), self.client)
            return self._link
        except SettingError as error:
            raise IrrecoverableConnectionError(str(error)) from error

    def close_connection(self, connection: Link) -> None:
        connection.close()

    def create_channel(self, connection: Link) -> Channel:
        return Channel(connection)

    def close_channel(self, channel: Channel) -> None:
        channel.close()

    def drain_events(self, connection: Link, timeout: float | None = None, **_: Any) -> None:
        connection.drain(timeout)

    def verify_connection(self, connection: Link) -> bool:
        return connection.alive

    def register_with_event_loop(self, connection: Link, loop: Any) -> None:
        connection.watch(loop)

    def unregister_from_event_loop(self, connection: Link, loop: Any) -> None:
        connection.unwatch()

    def qos_semantics_matches_spec(self, connection: Link) -> bool:
        return True

    @property
    def default_connection_params(self) -> dict[str, Any]:
        return {"hostname": "localhost", "port": DEFAULT_PORT, "userid": "root"}
