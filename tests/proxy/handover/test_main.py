"""`zketcd upgrade`: which process it asks, and what it prints (tests/faults/test_hot_restart.py runs it)."""

import asyncio
import os

import pytest

from proxy.handover.__main__ import main, running
from proxy.handover.control import DONE, Control

_SOCKETS = """Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 62170 @zketcd/812
0000000000000000: 00000003 00000000 00000000 0001 03 62170 @zketcd/812
0000000000000000: 00000002 00000000 00010000 0001 01 62171 @zketcd/9
0000000000000000: 00000002 00000000 00010000 0001 01 20123 /run/zketcd/7
"""


async def _turns() -> None:
    """Let the loop close what clients have closed."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_running_processes_are_found_by_their_sockets() -> None:
    control = Control()
    await control.open()
    ours = f"0000000000000000: 00000002 00000000 00010000 0001 01 62172 @zketcd/{os.getpid()}\n"
    assert await asyncio.to_thread(running, _SOCKETS + ours) == [os.getpid()]  # others: of other containers
    await _turns()
    assert not control.requested.is_set()
    control.close()


def test_a_process_that_does_not_serve_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([str(os.getpid())])
    assert ended.value.code == 2
    assert (
        f"process {os.getpid()}: Connection refused: it is no zketcd that serves" in capsys.readouterr().err
    )


@pytest.mark.parametrize(("outcome", "code"), [(f"{DONE}7 has taken over", 0), ("no upgrade: why", 1)])
async def test_the_outcome_is_reported(outcome: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    control = Control()
    await control.open()
    asking = asyncio.create_task(asyncio.to_thread(main, [str(os.getpid())]))
    await control.requested.wait()
    await control.answer(outcome)
    assert await asking == code
    await _turns()
    control.close()
    printed = capsys.readouterr()
    assert outcome in (printed.out if code == 0 else printed.err)
