"""Work that takes long, done in pieces. Pure: the caller decides how long to go on at a stretch.

An operation that finds that it would take long raises `Laborious` before it has changed anything. Then its
form in pieces is used: a generator, which yields where others may have their turn. Where no
turns are needed, `whole` does all of it at once.

The form in pieces has the verb's form in -ing: `commit` and `committing`, `decode` and `decoding`.
"""

from collections.abc import Generator
from typing import Any, TypeVar

Result = TypeVar("Result")

#: Some work in pieces, and what comes of it at the end.
Work = Generator[None, None, Result]

#: Parts, nodes or watches that are worked on between two yields: 1 to 2 ms.
PIECE = 512
#: What takes more steps than this is done in pieces.
AT_ONCE = 1024
#: Requests of more bytes than this are done in pieces, where they consist of parts.
AT_ONCE_BYTES = 32 << 10


class Laborious(Exception):
    """This takes too long to be done at a stretch. Nothing was changed."""


class Unfinished(Exception):
    """A request takes long: what was begun of it is taken back, and `work` does all of it, in pieces."""

    def __init__(self, work: Work[Any]) -> None:
        super().__init__("a request takes long")
        self.work = work


def whole(work: Work[Result]) -> Result:
    """Do all of it."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: Result = end.value
            return result
