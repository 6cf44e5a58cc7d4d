"""A zketcd whose heirs can fail: `python -m tests.faults.heirs OPTIONS`, with DIE_AT naming a file.

The file has the step of the handover before which a process that takes over ends; empty for none.
"""

import os
import sys
from pathlib import Path
from typing import Any

from proxy import __main__ as program
from proxy.frontend import moved
from proxy.handover import taker
from proxy.handover.channel import VARIABLE, Channel

#: What the new process does at each: it says, or waits for, a message of this kind.
STEPS = ("hello", "frozen", "carried", "listeners", "taken", "go")

#: Or it takes over in another form than the old process.
OTHER_FORM = "other form"


def _fail_at(step: str) -> None:
    send, receive = Channel.send, Channel.receive

    async def failing_send(channel: Channel, kind: str, *given: Any, **fields: Any) -> None:
        if kind == step:
            os._exit(9)
        await send(channel, kind, *given, **fields)

    async def failing_receive(channel: Channel, *kinds: str, **given: Any) -> Any:
        if step in kinds:
            os._exit(9)
        return await receive(channel, *kinds, **given)

    setattr(Channel, "send", failing_send)  # noqa: B010 - mypy knows another signature
    setattr(Channel, "receive", failing_receive)  # noqa: B010


if __name__ == "__main__":
    if VARIABLE in os.environ:
        step = Path(os.environ["DIE_AT"]).read_text()
        if step == OTHER_FORM:
            vars(taker)["FORM"] = moved.FORM + 1
        _fail_at(step)
    sys.exit(program.main())
