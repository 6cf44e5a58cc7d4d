"""A zketcd whose successor can fail: `python -m tests.faults.failing_takeover OPTIONS`. DIE_AT names a file.

The file has the step of the handover before which a process that takes over ends; empty for none.
With `held` after the step, it stands still instead: it renames the file to `reached`, until that is deleted.
"""

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from proxy.handover import moved, receiver
from proxy.handover.channel import VARIABLE, Channel
from serve import __main__ as program

#: What the new process does at each: it says, or waits for, a message of this kind.
STEPS = ("hello", "adopted", "frozen", "carried", "listeners", "taken", "go")

#: Or it takes over in another form than the old process.
OTHER_FORM = "other form"


def _change(step: str, then: Callable[[], object]) -> None:
    """Let the new process do this before a step."""
    send, receive = Channel.send, Channel.receive

    async def changed_send(channel: Channel, kind: str, *given: Any, **fields: Any) -> None:
        if kind == step:
            then()
        await send(channel, kind, *given, **fields)

    async def changed_receive(channel: Channel, *kinds: str, **given: Any) -> Any:
        if step in kinds:
            then()
        return await receive(channel, *kinds, **given)

    setattr(Channel, "send", changed_send)  # noqa: B010 - mypy knows another signature
    setattr(Channel, "receive", changed_receive)  # noqa: B010


def _stand_still(order: Path) -> None:
    if order.exists():  # else it has stood still
        reached = order.rename(order.with_name("reached"))
        while reached.exists():
            time.sleep(0.01)


if __name__ == "__main__":
    if VARIABLE in os.environ:
        order = Path(os.environ["DIE_AT"])
        what = order.read_text()
        if what == OTHER_FORM:
            vars(receiver)["FORM"] = moved.FORM + 1
        step, _, held = what.partition(" ")
        _change(step, partial(_stand_still, order) if held else partial(os._exit, 9))
    sys.exit(program.main())
