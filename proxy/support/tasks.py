"""Who holds the tasks of the server: the event loop itself keeps only weak references to them."""

import asyncio
from collections.abc import Coroutine, Iterable
from functools import partial
from typing import Any


class Tasks:
    """Tasks of one owner; all end with `close`. One that fails is an exception in a callback of the loop.

    So it ends the server (`last_resort`).
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(
        self, coroutine: Coroutine[Any, Any, Any], what: str, *, reported: tuple[type[Exception], ...] = ()
    ) -> asyncio.Task[Any]:
        """Run a coroutine as a task; `what` names it if it fails.

        `reported`: failures that the caller awaits and reports in its own words.
        """
        task = asyncio.get_running_loop().create_task(coroutine, name=what)
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, reported))
        return task

    def _ended(self, reported: tuple[type[Exception], ...], task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, reported):
            failure = {"message": f"failed to {task.get_name()}", "exception": error}
            task.get_loop().call_exception_handler(failure)

    async def close(self, patience: float = 0) -> None:
        """Cancel what still runs after so many seconds, and wait for its end."""
        tasks = list(self._tasks)
        if tasks and patience:
            await asyncio.wait(tasks, timeout=patience)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def together(coroutines: Iterable[Coroutine[Any, Any, object]]) -> None:
    """Run coroutines at the same time. Raises the first error, after the others have ended.

    Not a TaskGroup: in Python 3.11 one that a child's error ends leaves its parent marked as cancelled, and
    in 3.11.2 a timeout that passes later cancels such a task for good. Not `gather` alone: if it is cancelled
    while a child fails, it raises the child's error, and the cancellation is lost.
    """
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(each) for each in coroutines]
    if not tasks:
        return
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
