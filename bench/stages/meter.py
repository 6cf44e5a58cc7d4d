"""Whose work it is: CPU time, and calls of functions, by stage."""

import cProfile
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

TAKE = "take"
EVALUATE = "evaluate"
PLAN = "plan"
ENCODE = "encode"
ANSWER = "etcd's answer"
EVENTS = "read events"
APPLY = "apply, answer"
SEND = "send"
OTHER = "other"
OF_THE_PROXY = (TAKE, EVALUATE, PLAN, ENCODE, ANSWER, EVENTS, APPLY, SEND, OTHER)
"""The stages of a request, in their order: taking it (a read is answered there as well); evaluating a batch
of writes; making its Txn; encoding it; reading etcd's answer; reading its events; applying them, with the
watches and answers that follow; sending what has gathered; and whatever else the proxy does for it."""

BACKGROUND = "background"
"""What the proxy does by the clock, whatever the requests: look after sessions, leases, containers."""

OUTSIDE = "outside"
"""The loop, the clients and etcd: not the proxy's."""

_OWN = str(Path(__file__).parent)


class Meter:
    """Notes CPU time by stage while it runs; by `counting`, calls as well (then the times mean nothing)."""

    def __init__(self, *, counting: bool = False, profile: cProfile.Profile | None = None) -> None:
        """`profile` is to be on while this runs."""
        self.nanos: dict[str, int] = {}
        self.python_calls: dict[str, int] = {}
        self.c_calls: dict[str, int] = {}
        self._counting = counting
        self._profile = profile
        self._stage = OUTSIDE
        self._since = 0
        self._into: dict[str, int] = {}  # self.nanos while this runs, else what nobody looks at

    def enter(self, stage: str) -> str:
        """From now on it is this stage's work; returns whose it was, to go back to."""
        now = time.thread_time_ns()
        former = self._stage
        self._into[former] = self._into.get(former, 0) + now - self._since
        self._stage = stage
        self._since = now
        return former

    @contextmanager
    def running(self) -> Iterator[None]:
        """Note, on top of what there is. Before and after, whose work it is is only followed."""
        if self._counting:
            sys.setprofile(self._count)
        elif self._profile is not None:
            self._profile.enable()
        self.enter(self._stage)
        self._into = self.nanos
        try:
            yield
        finally:
            self.enter(self._stage)
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
            calls[self._stage] = calls.get(self._stage, 0) + 1
