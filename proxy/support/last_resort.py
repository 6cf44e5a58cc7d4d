"""What becomes of an exception that nothing has handled: it ends a connection, or the process.

A callback that must run again, and does not, leaves a server that listens and does nothing. So an exception
in a callback of one connection ends that connection, and any other one ends the process: whatever has started
zketcd starts it again, and clients continue their sessions (docs/decisions/0047). A lack of memory ends the
process wherever it shows, since it is not known what was half done.
"""

import asyncio
import logging
import os
import select
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

from proxy.support.throttled_log import ThrottledLog

log = logging.getLogger(__name__)

#: The exit code of a process that ends itself, as sysexits.h has it for an error of the program.
EXIT_CODE = 70
_STDERR = 2
_WAIT = 1000  # milliseconds for a standard error that is not read
_PIECE = select.PIPE_BUF  # bytes that can be written at once when the descriptor is ready
_MOST = 16 << 10  # bytes of what is said

End: TypeAlias = Callable[[str, BaseException | None], object]
"""Ends the process, for a reason that is put into words, and the exception behind it, if any."""

# Given back to say why the process ends although memory is out.
_spare: list[bytes] = []


def end_process(reason: str, error: BaseException | None = None) -> NoReturn:
    """End the process at once, after a line on standard error that says why.

    Nothing is drained, and no handler of the log is waited for: any of them may be what has failed.
    """
    try:
        _spare.clear()
        trace = "" if error is None else "".join(traceback.format_exception(error))[-_MOST:]
        _say(f"{trace}zketcd: {reason}\n".encode(errors="backslashreplace"))
    finally:
        os._exit(EXIT_CODE)


def _say(said: bytes) -> None:
    """Write to standard error, as long as it is read."""
    poll = select.poll()
    poll.register(_STDERR, select.POLLOUT)
    while said and any(happened & select.POLLOUT for _, happened in poll.poll(_WAIT)):
        said = said[os.write(_STDERR, said[:_PIECE]) :]


class LastResort:
    """The exception handler of an event loop."""

    def __init__(self, end: End = end_process) -> None:
        self._end = end

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle what a callback has raised, or what was reported in place of that."""
        error = context.get("exception")
        out_of_memory = isinstance(error, MemoryError)
        transport = context.get("transport")
        # Without an exception it is a warning. One of a task or future that has no owner has no consequence:
        # tasks of the server are in `support.tasks`, which reports theirs.
        is_harmless = error is None or "task" in context or "future" in context
        if is_harmless and not out_of_memory:
            loop.default_exception_handler(context)
        elif transport is not None and not out_of_memory:
            log.error("closing a connection: %s", context.get("message"), exc_info=error)
            transport.abort()
        else:
            self._end(
                f"ending: {context.get('message') or 'an exception in the event loop'}: {error!r}", error
            )


def take_charge(loop: asyncio.AbstractEventLoop) -> None:
    """End this process by what is not handled: in the loop, in threads, and where nothing can be raised."""
    _spare.append(bytes(1 << 20))
    loop.set_exception_handler(LastResort())
    threading.excepthook = _in_thread
    sys.unraisablehook = _unraisable


def contained(error: Exception, what: str, throttled_log: ThrottledLog | None = None) -> None:
    """Log an exception whose consequence ends with what it belongs to; the caller ends that.

    `throttled_log`: of what has no session; it may cause the exception again and again.
    A lack of memory is passed on to the loop's handler, which ends the process.
    """
    if isinstance(error, MemoryError):
        asyncio.get_running_loop().call_exception_handler({"message": what, "exception": error})
    elif throttled_log is not None:
        throttled_log.error("%s", what, trace=error)
    else:
        log.error("%s", what, exc_info=error)


def _in_thread(arguments: threading.ExceptHookArgs) -> None:
    if arguments.exc_type is not SystemExit:
        name = "" if arguments.thread is None else arguments.thread.name
        end_process(f"ending: thread {name}: {arguments.exc_value!r}", arguments.exc_value)


def _unraisable(arguments: "sys.UnraisableHookArgs") -> None:
    if isinstance(arguments.exc_value, MemoryError):
        end_process(f"ending: {arguments.err_msg}: {arguments.object!r}", arguments.exc_value)
    sys.__unraisablehook__(arguments)
