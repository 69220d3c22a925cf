"""PreparedParameters: what a client has sent so far of the parameters of one prepared statement."""

from __future__ import annotations

from collections.abc import Sequence

from mysql_wire.errors import ProxyError
from mysql_wire.parameters import ParameterType
from mysql_wire.requests import BulkRequest, ExecuteRequest, parse_bulk, parse_execute


class PreparedParameters:
    """See the module. `count`: how many there are. `long_max`: bytes of long data that are stored, of all together."""

    def __init__(self, count: int, long_max: int) -> None:
        self.count = count
        self._long_max = long_max
        self._types: Sequence[ParameterType] | None = None  # a client may leave them out when it executes again
        self._long_data: dict[int, bytearray] = {}
        self._long_size = 0
        self._overflow = False

    def add(self, parameter: int, piece: bytes) -> None:
        """A piece of a value, by COM_STMT_SEND_LONG_DATA. That has no answer: what is wrong shows at execution."""
        if parameter >= self.count:
            return
        pieces = self._long_data.setdefault(parameter, bytearray())
        if self._long_size + len(piece) <= self._long_max:
            pieces.extend(piece)
            self._long_size += len(piece)
        else:
            self._overflow = True

    def forget(self) -> None:
        """COM_STMT_RESET: the long data is gone, the types stay."""
        self._long_data.clear()
        self._long_size = 0
        self._overflow = False

    def execution(self, body: bytes, capabilities: int, encoding: str) -> ExecuteRequest:
        """The values of a COM_STMT_EXECUTE; the long data is used up by it. Raises what `read` raises."""
        try:
            request = self.read(body, capabilities, encoding)
        finally:
            self.forget()
        self.executed(request)
        return request

    def read(self, body: bytes, capabilities: int, encoding: str) -> ExecuteRequest:
        """The values of a COM_STMT_EXECUTE, of which nothing is noted until `executed`.

        Raises:
            ProxyError: 1153 more long data than is stored, and what `parse_execute` raises.
        """
        if self._overflow:
            raise ProxyError(1153, f"Got a packet bigger than 'max_allowed_packet' bytes ({self._long_max})")
        data = {number: bytes(pieces) for number, pieces in self._long_data.items()}
        return parse_execute(body, self.count, self._types, data, capabilities, encoding)

    def executed(self, request: ExecuteRequest) -> None:
        """Its database has the command: the long data is used up, and the types are those of later executions."""
        self.forget()
        self._types = request.types

    def bulk_execution(self, body: bytes, encoding: str) -> BulkRequest:
        """The sets of values of a COM_STMT_BULK_EXECUTE. Raises what `parse_bulk` raises."""
        self.forget()
        request = parse_bulk(body, self.count, self._types, encoding)
        self._types = request.types
        return request
