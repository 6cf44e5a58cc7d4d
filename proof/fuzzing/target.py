"""What a target is, and the judgement of one input."""

import signal
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import NamedTuple

#: Larger inputs teach nothing that smaller ones do not.
MOST_BYTES = 4096


class Target(NamedTuple):
    """One function that takes bytes from another process."""

    name: str
    about: str  # what an input is, for people
    run: Callable[[bytes], object]  # decodes an input; raises one of `errors`, or Wrong
    errors: tuple[type[Exception], ...]  # the documented ones
    bytes_each: int = 400  # of memory that a byte of input may cost
    fixed_bytes: int = 2 << 20  # of memory, beside: caches, tracebacks, structures of a fixed size
    #: Instead of libFuzzer: seconds and seed -> how many inputs were tried, and what they break, for people.
    search: Callable[[float, int], tuple[int, list[str]]] | None = None


class Wrong(Exception):
    """The input was decoded, but to a wrong result: two ways to it disagree."""


class Finding(Exception):
    """An input that breaks the invariant."""

    def __init__(self, what: str, place: str = "") -> None:
        """`place`: in the code, if there is one."""
        super().__init__(what)
        self.what = what
        self.place = place


def judge(target: Target, data: bytes) -> str:
    """ "value", or the name of the documented error that `data` leads to. Raises Finding."""
    try:
        target.run(data)
    except target.errors as error:
        return type(error).__name__
    except Exception as error:
        raise Finding(f"{type(error).__name__}: {error}", _place(error)) from error
    return "value"


def judge_memory(target: Target, data: bytes) -> int:
    """The most bytes that were allocated at once while `data` was decoded. Raises Finding above the bound."""
    bound = target.fixed_bytes + target.bytes_each * len(data)
    tracemalloc.start()
    try:
        judge(target, data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    if peak > bound:
        raise Finding(f"{len(data)} bytes of input took {peak} bytes of memory; the bound is {bound}")
    return peak


SLOW = 60
"""Seconds after which an input counts as endless."""


class Endless(BaseException):
    """The input keeps the code busy for too long. No `except Exception` stops it."""


def finding_of(target: Target, data: bytes, slow_s: float = SLOW) -> Finding | None:
    """What `data` breaks, if anything: errors, memory, time. For the main thread."""

    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise Endless

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, slow_s)
    try:
        judge_memory(target, data)
    except Finding as finding:
        return finding
    except Endless:
        return Finding(f"{len(data)} bytes keep it busy for more than {slow_s:g} s")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return None


def _place(error: BaseException) -> str:
    """The line that raised the error: for Wrong, the one that compared."""
    step = error.__traceback__
    place = ""
    while step is not None:
        if step.tb_frame.f_code.co_name != "same":
            place = f"{step.tb_frame.f_code.co_filename}:{step.tb_lineno}"
        step = step.tb_next
    return place
