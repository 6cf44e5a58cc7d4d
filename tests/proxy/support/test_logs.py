"""The forms of messages, and where the audit log goes."""

import json
import logging
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.servers.process import REPOSITORY
from lab.servers.waiting import wait_until
from proxy.support import logs


@contextmanager
def files_of_at_most(size: int) -> Iterator[Callable[[], None]]:
    """No file of this process gets larger, as on a full disk; gives what ends that."""
    most, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    was = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def any_size() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))

    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        yield any_size
    finally:
        any_size()
        signal.signal(signal.SIGXFSZ, was)


def record(message: str, *arguments: object) -> logging.LogRecord:
    return logging.LogRecord("proxy.x", logging.WARNING, "x.py", 1, message, arguments, None)


def test_a_message_is_one_json_object() -> None:
    shown = json.loads(logs.formatter(logs.JSON).format(record("two\nlines, %s", "ä")))
    assert shown.pop("time").endswith("+00:00")
    assert shown == {"level": "WARNING", "logger": "proxy.x", "message": "two\nlines, ä"}


def test_an_exception_is_part_of_the_object() -> None:
    try:
        raise ValueError("wrong")
    except ValueError:
        failed = record("failed")
        failed.exc_info = sys.exc_info()
    line = logs.formatter(logs.JSON, "snapshot writer").format(failed)
    assert "\n" not in line
    shown = json.loads(line)
    assert shown["process"] == "snapshot writer"
    assert shown["exception"].endswith("ValueError: wrong")


def test_text() -> None:
    for process, said in (("", "a"), ("writer", "writer: a")):
        assert logs.formatter(logs.TEXT, process).format(record("a")).endswith(f" WARNING proxy.x: {said}")


@pytest.mark.parametrize("form", logs.FORMATS)
def test_a_child_process_learns_the_form(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    logs.configure("INFO", form)
    assert logs.form_in_use() == form


@pytest.mark.parametrize("form", logs.FORMATS)
def test_the_audit_log_goes_to_its_file_alone(
    tmp_path: Path, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "audit.log"
    with logs.audit_to(str(path), form):
        logs.audit.info("%s", "a=1\tb=2")
        logs.audit.info("%s", "a=2 \udcff")
    lines = path.read_text().splitlines()
    assert len(lines) == 2
    assert "a=1\tb=2" in (json.loads(lines[0])["message"] if form == logs.JSON else lines[0])
    if form == logs.JSON:
        assert json.loads(lines[0])["audit"] == {"a": "1", "b": "2"}
    assert caplog.messages == []


@pytest.mark.parametrize("form", logs.FORMATS)
def test_each_line_of_an_audit_record_has_its_head(tmp_path: Path, form: str) -> None:
    path = tmp_path / "audit.log"
    with logs.audit_to(str(path), form):
        logs.audit.info("%s", "a=1\nb=2\nc=3")
    lines = path.read_text().splitlines()
    if form == logs.JSON:
        assert [json.loads(line)["message"] for line in lines] == ["a=1", "b=2", "c=3"]
        assert [json.loads(line)["audit"] for line in lines] == [{"a": "1"}, {"b": "2"}, {"c": "3"}]
        assert {json.loads(line)["logger"] for line in lines} == {"zketcd.audit"}
    else:
        heads, _, ends = zip(*[line.partition(" INFO zketcd.audit: ") for line in lines], strict=True)
        assert len(set(heads)) == 1
        assert ends == ("a=1", "b=2", "c=3")


def test_messages_may_have_several_lines() -> None:
    text = logs.formatter(logs.TEXT).format(record("one\ntwo"))
    assert text.endswith(" WARNING proxy.x: one\ntwo")


def test_a_file_that_was_moved_away_is_opened_anew(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    with logs.audit_to(str(path), logs.TEXT):
        os.rename(path, tmp_path / "audit.log.1")
        logs.audit.info("%s", "new")
    assert "new" in path.read_text()


def test_the_audit_log_goes_to_a_named_pipe_that_is_read(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with logs.audit_to(str(path), logs.TEXT):
        logs.audit.info("%s", "a=1")
    assert os.read(reader, 100).endswith(b"a=1\n")
    os.close(reader)


def test_an_audit_log_that_cannot_be_written_is_one_warning(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with logs.audit_to("/dev/full", logs.TEXT):
        for number in range(5):
            logs.audit.info("%d", number)
    (warning,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert warning.getMessage() == "cannot write to the audit log /dev/full: No space left on device"
    assert capsys.readouterr().err == ""


def test_an_audit_log_says_how_many_of_its_lines_are_missing(tmp_path: Path) -> None:
    """On a full disk they were lost without a trace in the file."""
    path = tmp_path / "audit.log"
    before = logs.dropped()
    with files_of_at_most(100) as any_size, logs.audit_to(str(path), logs.TEXT):
        logs.audit.info("%s", "a" * 200)
        logs.audit.info("lost")
        logs.audit.info("lost\nas well")
        wait_until(lambda: logs.dropped() == before + 3, "the loss", timeout=60)
        any_size()
        logs.audit.info("kept")
    first, kept, missing = path.read_text().splitlines()
    assert first.endswith("a" * 200)
    assert kept.endswith("kept")
    assert missing.endswith("3 lines of the audit log were dropped: the file could not be written")


def test_the_end_of_a_process_does_not_wait_for_the_reader_of_its_audit_log(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    os.mkfifo(path)
    program = (
        "import sys\n"
        "from proxy.support import logs\n"
        "with logs.audit_to(sys.argv[1], logs.TEXT):\n"
        "    for _ in range(200):\n"
        "        logs.audit.info('x' * 1000)\n"
    )
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        subprocess.run([sys.executable, "-c", program, path], cwd=REPOSITORY, check=True, timeout=60)
        assert b" INFO zketcd.audit: xxx" in os.read(reader, 1000)
    finally:
        os.close(reader)


def test_a_line_that_was_cut_is_ended_before_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    with files_of_at_most(1000) as any_size, logs.audit_to(str(path), logs.JSON):
        logs.audit.info("%s", "a" * 2000)
        logs.audit.info("lost")
        wait_until(lambda: path.stat().st_size == 1000, "the part of a line", timeout=60)
        any_size()
        logs.audit.info("kept")
    messages = [json.loads(line)["message"] for line in path.read_text().splitlines()]
    assert messages[0] == "a" * 2000
    assert "kept" in messages


def test_an_audit_log_goes_on_when_it_can_be_opened_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with logs.audit_to(str(folder / "audit.log"), logs.TEXT):
        os.rename(folder, tmp_path / "elsewhere")
        logs.audit.info("%s", "lost")
        wait_until(lambda: "cannot write to the audit log" in caplog.text, "the warning", timeout=60)
        folder.mkdir()
        logs.audit.info("%s", "kept")
    assert "kept" in (folder / "audit.log").read_text()


def test_stderr_is_where_all_messages_go(caplog: pytest.LogCaptureFixture) -> None:
    with logs.audit_to(logs.STDERR, logs.TEXT):
        logs.audit.info("%s", "a=1")
    assert caplog.messages == ["a=1"]


def test_a_file_that_cannot_be_written() -> None:
    with pytest.raises(OSError, match="No such file"), logs.audit_to("/no/such/folder/audit.log", logs.TEXT):
        pass
