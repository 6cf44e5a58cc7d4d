"""Several servers that start and end together."""

from abc import ABC, abstractmethod
from contextlib import ExitStack
from typing import Self


class Together(ABC):
    """A `with` block starts all of them, and ends them in the opposite order, also if one does not start."""

    _stack: ExitStack

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @abstractmethod
    def _start(self, stack: ExitStack) -> None:
        """Start them; `stack` gets what ends them."""
