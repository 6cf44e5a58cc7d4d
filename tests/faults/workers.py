"""Threads of a test: functions, and clients that repeat one piece of work without pause."""

import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Generic, Self, TypeVar

from lab.client.blocking import Client
from lab.servers import wait_until

_PATIENCE_S = 60.0

BUSY = 10
"""How often the calm time is added to a limit of time."""


class Threads:
    """Functions that run in threads of their own in a `with`, until `over` is set at its end."""

    def __init__(self, runs: Sequence[Callable[[], None]]) -> None:
        self.over = threading.Event()
        self._failures: list[BaseException] = []
        self._threads = [threading.Thread(target=self._guarded, args=(run,)) for run in runs]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for thread in self._threads:
            thread.join()
        assert not self._failures

    def _guarded(self, run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as error:  # noqa: BLE001 - the test reports it
            self._failures.append(error)


class Worker:
    """One client with a node of its own. A subclass says what its work is."""

    def __init__(self, client: Client, own: str) -> None:
        self.client = client
        self.own = own
        self.client.create(own)
        #: How often the work was done.
        self.rounds = 0
        self.failure: BaseException | None = None
        self.stopping = False
        self.thread = threading.Thread(target=self._run, daemon=True)

    def work(self) -> None:
        """Once; raises whatever shows that something is wrong. Counts `rounds`."""
        raise NotImplementedError

    def _run(self) -> None:
        try:
            while not self.stopping:
                self.work()
        except BaseException as failure:  # noqa: BLE001 - raised again in the test's own thread
            self.failure = failure


W = TypeVar("W", bound=Worker)


class Workers(Generic[W]):
    """Clients at work from the beginning of the `with` to `finish`."""

    def __init__(self, each: Sequence[W]) -> None:
        self.each = each

    def __enter__(self) -> Self:
        for worker in self.each:
            worker.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self.each:
            worker.stopping = True
            worker.client.drop()

    def progress(self, rounds: int = 2, timeout: float = 60.0) -> None:
        """Wait until each worker has done its work so many more times."""
        before = [worker.rounds for worker in self.each]

        def moved() -> bool:
            self._raise_failure()
            return all(worker.rounds >= done + rounds for worker, done in zip(self.each, before, strict=True))

        wait_until(moved, "the work of every client", timeout=timeout)

    def calm(self) -> float:
        """Seconds that so much work takes while nothing is wrong: on a busy machine all takes longer."""
        began = time.monotonic()
        self.progress()
        return time.monotonic() - began

    def finish(self) -> None:
        """Let all do what they have begun. Raises AssertionError for one that has failed."""
        for worker in self.each:
            worker.stopping = True
        for worker in self.each:
            worker.thread.join(_PATIENCE_S)
            assert not worker.thread.is_alive(), f"a reply is missing for {worker.own}"
        self._raise_failure()

    def _raise_failure(self) -> None:
        for worker in self.each:
            if worker.failure is not None:
                raise AssertionError(f"the client of {worker.own} failed") from worker.failure
