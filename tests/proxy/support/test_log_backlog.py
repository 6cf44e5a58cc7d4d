"""Lines that a thread writes: none stalls who logs, none is lost unnoticed."""

import gc
import logging
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab.servers.waiting import wait_until
from proxy.support import logs
from proxy.support.log_backlog import Backlog, Descriptor


class _Gate(logging.Handler):
    """Writes nothing until it is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open = threading.Event()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        assert self.open.wait(60)
        self.lines.append(record.getMessage())


@contextmanager
def _logger(backlog: Backlog) -> Iterator[logging.Logger]:
    logger = logging.Logger("apart")  # noqa: LOG001 - pytest keeps no record of it
    logger.addHandler(backlog)
    try:
        yield logger
    finally:
        backlog.close()


def test_lines_come_in_order_with_what_they_said_when_they_were_logged() -> None:
    gate, changing = _Gate(), ["first"]
    backlog = Backlog(gate, "messages")
    with _logger(backlog) as logger:
        logger.warning("%s", changing)
        changing[0] = "second"
        backlog.say("as it is")
        logger.warning("%s", changing)
        gate.open.set()
    assert gate.lines == ["['first']", "as it is", "['second']"]
    assert backlog.dropped == 0


def test_what_is_too_much_is_dropped_and_counted_and_said_once_it_is_read_again() -> None:
    gate = _Gate()
    backlog = Backlog(gate, "messages")
    with _logger(backlog) as logger:
        for _ in range(3000):
            logger.warning("x" * 1000)
        assert 1000 < backlog.dropped < 3000
        written, dropped = 3000 - backlog.dropped, backlog.dropped
        gate.open.set()
        wait_until(lambda: len(gate.lines) > written, "what was lost", timeout=60)
        assert gate.lines[-1] == (
            f"{dropped} lines of messages were dropped: they came faster than they were written"
        )
        logger.warning("again")
        wait_until(lambda: gate.lines[-1] == "again", "the next line", timeout=60)
    assert len(gate.lines) == written + 2


def test_each_line_of_a_record_that_is_dropped_counts() -> None:
    gate = _Gate()
    backlog = Backlog(gate, "the audit log", 0)
    with _logger(backlog) as logger:
        for _ in range(3):  # the thread may have taken the first
            logger.warning("one\ntwo\nthree")
        assert backlog.dropped in (3, 6)
        gate.open.set()


@pytest.mark.long
def test_tracebacks_that_wait_count_and_keep_no_frame() -> None:
    gate = _Gate()
    backlog = Backlog(gate, "messages")

    class Local:
        """What only the frame of the exception holds."""

    def fail() -> None:
        local = Local()
        kept.append(weakref.ref(local))
        raise ValueError("x" * 10_000)

    kept: list[weakref.ref[Local]] = []
    with _logger(backlog) as logger:
        for _ in range(300):
            try:
                fail()
            except ValueError:
                logger.exception("a defect")
        assert 150 < backlog.dropped < 300
        gc.collect()
        assert not any(each() for each in kept)
        gate.open.set()


@pytest.mark.parametrize("form", logs.FORMATS)
def test_a_traceback_is_written(form: str) -> None:
    read, write = os.pipe()
    target = Descriptor(write, "utf-8")
    target.setFormatter(logs.formatter(form))
    with _logger(Backlog(target, "messages")) as logger:
        try:
            raise ValueError("why")
        except ValueError:
            logger.exception("a defect")
    os.close(write)
    with os.fdopen(read) as reader:
        text = reader.read()
    assert "a defect" in text
    assert "Traceback (most recent call last):" in text
    assert text.count("ValueError: why") == 1


def test_a_bad_message_is_not_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    gate = _Gate()
    gate.open.set()
    backlog = Backlog(gate, "messages")
    with _logger(backlog) as logger:
        backlog.handle(logging.makeLogRecord({"msg": "%d", "args": ("no number",)}))
        logger.warning("next")
    assert gate.lines == ["next"]
    assert "Logging error" in capsys.readouterr().err


def test_the_end_does_not_wait_for_a_pipe_that_nobody_reads() -> None:
    read, write = os.pipe()
    backlog = Backlog(Descriptor(write, "ascii"), "messages")
    with _logger(backlog) as logger:
        for _ in range(200):
            logger.warning("x" * 1000)
    assert os.read(read, 1001) == b"x" * 1000 + b"\n"
    os.close(read)  # which ends the write that waits
    wait_until(lambda: not backlog._thread.is_alive(), "the end of the thread", timeout=60)
    os.close(write)


@pytest.mark.parametrize("blocking", [True, False])
def test_a_descriptor_writes_whole_lines(blocking: bool) -> None:
    read, write = os.pipe()
    os.set_blocking(write, blocking)
    backlog = Backlog(Descriptor(write, "ascii"), "messages")
    with _logger(backlog) as logger, os.fdopen(read, "rb") as reader:
        logger.warning("ä%s", "x" * 200_000)
        assert reader.readline() == b"\\xe4" + b"x" * 200_000 + b"\n"
    os.close(write)


def test_what_is_dropped_anywhere_is_counted() -> None:
    before = logs.dropped()
    backlog = Backlog(logging.NullHandler(), "messages")
    logging.getLogger().addHandler(backlog)
    try:
        backlog.dropped += 3
        assert logs.dropped() == before + 3
    finally:
        logging.getLogger().removeHandler(backlog)
        backlog.close()
