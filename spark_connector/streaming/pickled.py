"""PickledSource: a source that goes to other processes as its options alone."""

from __future__ import annotations

from abc import ABC, abstractmethod

from spark_connector.client.columns import Field
from spark_connector.options import StreamReadOptions


class PickledSource(ABC):
    """Holds the options and the fields. What it holds besides is made where it is used, and is never pickled."""

    def __init__(self, options: StreamReadOptions, fields: tuple[Field, ...]) -> None:
        self._options, self._fields = options, fields
        self._forget()

    def __getstate__(self) -> tuple[StreamReadOptions, tuple[Field, ...]]:
        return self._options, self._fields

    def __setstate__(self, state: tuple[StreamReadOptions, tuple[Field, ...]]) -> None:
        self._options, self._fields = state
        self._forget()

    @abstractmethod
    def _forget(self) -> None:
        """Begin with nothing but the options."""
