"""A request that needs a task: to connect first, or because grpc.aio has one for each."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from proxy.etcd.transport import InFlight, RpcError
from proxy.support.tasks import Tasks

_Answer = bytes | RpcError


def ask(
    tasks: Tasks, work: Coroutine[Any, Any, _Answer], address: str, on_answer: Callable[[_Answer], None]
) -> InFlight:
    """Pass on what `work` returns. A task that is cancelled may not have begun: it has an answer as well."""

    def ended(task: asyncio.Task[_Answer]) -> None:
        if task.cancelled():
            on_answer(RpcError("cancelled"))
        elif task.exception() is None:  # else `tasks` reports it
            on_answer(task.result())

    task = tasks.start(work, f"ask {address}")
    task.add_done_callback(ended)
    return task
