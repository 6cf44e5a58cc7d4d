"""The answer to a four-letter word. A long one is made in slices."""

from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Protocol

from codec.errors import FrameTooLong
from codec.jute import INT
from proxy.log.slices import Slices
from proxy.state.pause import Pause
from proxy.support.environment import Clock


class Words(Protocol):
    """The four-letter words (proxy.admin.four_letter.FourLetterWords)."""

    def answer(self, word: bytes, rest: bytes, pause: Pause) -> Iterator[str] | None:
        """The answer, line by line, to a word and the bytes received with it; None if it is no word."""


class WordAnswer:
    """One answer, while it is made."""

    def __init__(self, lines: Iterator[str], slices: Slices) -> None:
        self._slices = slices
        self._made: list[list[str]] = []
        slices.prepare(partial(self._made.extend, slices.batches(lines)))

    def make(self) -> bytes | None:
        """Do one slice; returns the whole answer, or None if more slices are needed."""
        self._slices.resume()
        return "".join(chain.from_iterable(self._made)).encode() if self._slices.done else None

    def cancel(self) -> None:
        """Stop making it: the connection is closed."""
        self._slices.cancel()


def word_answer(words: Words, packet: FrameTooLong, clock: Clock) -> WordAnswer | None:
    """The answer to bytes that were received in place of a packet; None if they are no four-letter word."""
    slices = Slices(clock)
    lines = words.answer(INT.pack(packet.length), packet.rest, slices)
    return None if lines is None else WordAnswer(lines, slices)
