"""PickledSource: a source that is pickled as its options and fields only."""

from __future__ import annotations

from abc import ABC, abstractmethod

from spark_connector.client.columns import Field
from spark_connector.options import StreamReadOptions


class PickledSource(ABC):
    """Contains the options and the fields. Other state is created in each process, and is never pickled."""

    def __init__(self, options: StreamReadOptions, fields: tuple[Field, ...]) -> None:
        self._options, self._fields = options, fields
        self._reset()

    def __getstate__(self) -> tuple[StreamReadOptions, tuple[Field, ...]]:
        return self._options, self._fields

    def __setstate__(self, state: tuple[StreamReadOptions, tuple[Field, ...]]) -> None:
        self._options, self._fields = state
        self._reset()

    @abstractmethod
    def _reset(self) -> None:
        """Reset all state except the options and fields."""
