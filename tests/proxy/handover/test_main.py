"""`zketcd upgrade`: which process it asks, and what it prints (tests/faults/test_hot_restart.py runs it)."""

import asyncio
import os
import socket
from unittest.mock import MagicMock

import pytest

from proxy.handover import main as program
from proxy.handover.control import DONE, Control
from proxy.handover.names import name_of
from proxy.handover.upgrade import until_ended
from tests.proxy.log.proxies import until
from zketcd.__main__ import main


async def _turns() -> None:
    """Let the loop close what clients have closed."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_process_that_does_not_serve_is_wrong_usage(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "serving", lambda: {1 << 22})
    with pytest.raises(SystemExit) as ended:
        main(["upgrade", str(os.getpid())])
    assert ended.value.code == 2
    assert (
        f"process {os.getpid()} is no zketcd that serves clients: {1 << 22}: Connection refused"
        in capsys.readouterr().err
    )


def test_a_process_that_ends_meanwhile_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "serving", lambda: {1 << 22})
    with pytest.raises(SystemExit):
        main(["upgrade"])
    assert f"process {1 << 22}: Connection refused" in capsys.readouterr().err


def test_nothing_runs_here(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "serving", set)
    with pytest.raises(SystemExit):
        main(["upgrade"])
    assert "no zketcd runs here, or none that has /proc" in capsys.readouterr().err


def test_hidden_processes_are_no_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def hidden() -> set[int]:
        raise FileNotFoundError(2, "No such file or directory", "/proc/net/unix")

    monkeypatch.setattr(program, "serving", hidden)
    with pytest.raises(SystemExit) as ended:
        main(["upgrade"])
    assert ended.value.code == 2
    assert "cannot be found: /proc/net/unix: No such file" in capsys.readouterr().err


@pytest.mark.parametrize(("outcome", "code"), [(f"{DONE}7 has taken over", 0), ("no upgrade: why", 1)])
async def test_the_outcome_is_reported(outcome: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    control = Control()
    await control.open()
    asking = asyncio.create_task(asyncio.to_thread(main, ["upgrade", str(os.getpid())]))
    await control.requested.wait()
    await control.answer(outcome)
    assert await asking == code
    await _turns()
    control.close()
    printed = capsys.readouterr()
    assert outcome in (printed.out if code == 0 else printed.err)


async def test_a_client_that_asks_during_an_upgrade_gets_its_outcome_and_a_signal_another_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    control = Control()
    await control.open()
    control.requested.set()
    control.begin()
    for is_another in (False, True):
        asking = asyncio.create_task(asyncio.to_thread(main, ["upgrade", str(os.getpid())]))
        await until(lambda: bool(control._waiting))
        if is_another:
            control.requested.set()
        await control.answer(f"{DONE}7 has taken over")
        assert await asking == 0
        assert control.requested.is_set() == is_another
        control.begin()
    await _turns()
    control.close()
    assert capsys.readouterr().out == f"{DONE}7 has taken over\n" * 2


async def test_another_user_is_told_who_may_ask(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it is refused before it has asked or after."""
    monkeypatch.setattr("proxy.handover.control.other_end", lambda _: (1, os.geteuid() + 1))
    control = Control()
    await control.open()
    for _ in range(5):
        assert await asyncio.to_thread(main, ["upgrade", str(os.getpid())]) == 1
        assert "only root and the user that runs it may ask" in capsys.readouterr().err
    assert not control.requested.is_set()
    await _turns()
    control.close()


async def test_a_process_that_dies_meanwhile_is_not_taken_for_a_refusal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    control = Control()
    await control.open()
    asking = asyncio.create_task(asyncio.to_thread(main, ["upgrade", str(os.getpid())]))
    await control.requested.wait()
    await control.answer("")  # the kernel closes the connection
    assert await asking == 1
    await _turns()
    control.close()
    assert "the process ended without an answer: see its log" in capsys.readouterr().err


async def test_a_process_that_ends_says_so_to_who_has_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "descendants", lambda _pid: ())  # servers of other tests
    control = Control()
    await control.open()
    asking = asyncio.create_task(asyncio.to_thread(main, ["upgrade", str(os.getpid())]))
    await control.requested.wait()
    end = asyncio.create_task(asyncio.sleep(0))
    await end
    assert await until_ended(control, MagicMock(), {}, [end], "") == 0
    assert await asking == 1
    await _turns()
    assert "no upgrade: this process ends" in capsys.readouterr().err
    with pytest.raises(SystemExit):  # nor does it take a request that it would not answer
        await asyncio.to_thread(main, ["upgrade", str(os.getpid())])


async def test_of_several_processes_it_lists_what_each_serves(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    control = Control("--listen 127.0.0.1:2181 --prefix /zketcd")
    await control.open()
    monkeypatch.setattr(program, "serving", lambda: {os.getpid(), 1 << 22})
    with pytest.raises(SystemExit):
        await asyncio.to_thread(main, ["upgrade"])
    await _turns()
    control.close()
    assert not control.requested.is_set()
    error = capsys.readouterr().err
    serves = f"{os.getpid()}: --listen 127.0.0.1:2181 --prefix /zketcd"
    assert f"which process? {serves}; {1 << 22}: Connection refused" in error


def test_a_process_that_hangs_does_not_stop_the_list(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "_ANSWERED_WITHIN", 0.1)
    monkeypatch.setattr(program, "serving", lambda: {os.getpid(), 1 << 22})
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as silent:
        silent.bind(name_of(os.getpid()))
        silent.listen()
        with pytest.raises(SystemExit):
            main(["upgrade"])
    assert f"which process? {os.getpid()}: does not answer; {1 << 22}: Connection" in capsys.readouterr().err


def test_a_process_that_has_taken_anothers_name_is_not_believed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "serving", lambda: {1})
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as taken:
        taken.bind(name_of(1))
        taken.listen()
        with pytest.raises(SystemExit):
            main(["upgrade", "1"])
    assert f"process 1: process {os.getpid()} has taken its name" in capsys.readouterr().err


async def test_a_name_that_is_taken_keeps_nobody_from_serving(caplog: pytest.LogCaptureFixture) -> None:
    first, second = Control(), Control()
    await first.open()
    await second.open()
    assert (
        "`zketcd upgrade` cannot reach this process, only SIGUSR2 can: Address already in use" in caplog.text
    )
    second.close()
    first.close()
