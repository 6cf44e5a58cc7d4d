"""Whose work it is: CPU time, and calls of functions, by stage."""

import cProfile
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

ORDER = "order"
OUTBOX = "outbox"
APPEND = "append"
FOLLOWER = "follower"
MACHINE = "machine"
DIGEST = "digest"
WATCHES = "watches"
REPLY = "reply"
OTHER = "other"
OF_THE_PROXY = (ORDER, OUTBOX, APPEND, FOLLOWER, MACHINE, DIGEST, WATCHES, REPLY, OTHER)
"""The stages of a request, in their order: taking it (a read is answered there as well); making the entry;
the Txn, from the request to etcd to its answer; reading what the watch shows, and its effective order;
evaluating the requests of an entry, one after another; the hashes of what they change; watch events; replies,
with the reads that waited for them, and sending; and whatever else the proxy does."""

BACKGROUND = "background"
"""What the proxy does by the clock, whatever the requests: sessions, its lease, questions to etcd."""

OUTSIDE = "outside"
"""The loop, the clients and etcd: not the proxy's."""

_OWN = str(Path(__file__).parent)
_TRIES = 2000


class Meter:
    """Notes CPU time by stage while it runs; by `counting`, calls as well (then the times mean nothing)."""

    def __init__(self, *, counting: bool = False, profile: cProfile.Profile | None = None) -> None:
        """`profile` is to be on while this runs."""
        self.nanos: dict[str, int] = {}
        self.python_calls: dict[str, int] = {}
        self.c_calls: dict[str, int] = {}
        self.stage = OUTSIDE
        self._counting = counting
        self._profile = profile
        self._since = 0
        self._into: dict[str, int] = {}  # self.nanos while this runs, else a dict that is not read
        self._own = 0  # what `enter` takes itself, which is no part of any stage
        self._own = self._cost()

    def enter(self, stage: str) -> str:
        """From now on it is this stage's work; returns whose it was, to go back to."""
        now = time.thread_time_ns()
        former = self.stage
        self._into[former] = self._into.get(former, 0) + now - self._since - self._own
        self.stage = stage
        self._since = now
        return former

    def _cost(self) -> int:
        """Nanoseconds of `enter`, with what it takes to ask for the time."""
        self._since = begun = time.thread_time_ns()
        for _ in range(_TRIES):
            self.enter(OUTSIDE)
        self._into.clear()
        return (time.thread_time_ns() - begun) // _TRIES

    @contextmanager
    def running(self) -> Iterator[None]:
        """Note, on top of what there is. Before and after, whose work it is is only followed."""
        if self._counting:
            sys.setprofile(self._count)
        elif self._profile is not None:
            self._profile.enable()
        self.enter(self.stage)
        self._into = self.nanos
        try:
            yield
        finally:
            self.enter(self.stage)
            self._into = {}
            if self._counting:
                sys.setprofile(None)
            elif self._profile is not None:
                self._profile.disable()

    def _count(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call":
            calls = self.python_calls
        elif event == "c_call":
            calls = self.c_calls
        else:
            return
        # The frame is the called function's, or the caller's of one in C: what this package does is left out.
        if not frame.f_code.co_filename.startswith(_OWN):
            calls[self.stage] = calls.get(self.stage, 0) + 1
