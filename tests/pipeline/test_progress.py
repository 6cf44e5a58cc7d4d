"""How far a command is, for people and for scripts."""

import errno
import io
import json

import pytest

from lab.servers import wait_until
from pipeline import progress
from pipeline.progress import Reporter, facts_of, sentence_of

KEYS = ["event", "step", "count", "unit", "bytes", "expected", "seconds", "seconds_left", "done"]


def sentence(counted: tuple[int, int], expected: int | None, seconds: float, *, done: bool = False) -> str:
    return sentence_of(facts_of("load", "znodes", counted, expected, seconds, done=done))


def test_an_estimate_of_what_is_left() -> None:
    assert sentence((0, 0), 100, 2) == "load: 0 of about 100 znodes, 0 bytes after 2 s"
    assert sentence((25, 2500), 100, 2) == "load: 25 of about 100 znodes, 2 kB after 2 s, about 6 s left"
    assert sentence((10, 10**7), 1000, 60) == (
        "load: 10 of about 1000 znodes, 10 MB after 60 s, about 1.6 h left"
    )
    assert sentence((120, 5), 100, 300) == (
        "load: 120 of about 100 znodes, 5 bytes after 5 min, about 0 s left"
    )
    assert sentence((25, 2500), None, 2) == "load: 25 znodes, 2 kB after 2 s"
    assert sentence((100, 3 * 10**12), 100, 2.34, done=True) == ("load: done in 2.3 s, 100 znodes, 3.0 TB")


def test_lines_while_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.01)
    out = io.StringIO()
    with Reporter(out=out).step("load", 10) as count:
        count.add(5, 50)
        wait_until(lambda: "5 of about 10 znodes, 50 bytes" in out.getvalue(), "a line is told")
        count.add(5, 50)
    assert out.getvalue().splitlines()[-1].endswith("s, 10 znodes, 100 bytes")
    assert "\r" not in out.getvalue()


class _Full(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_work_goes_on_when_nobody_can_be_told() -> None:
    reporter = Reporter(out=_Full())
    with reporter.step("load", 10) as count:
        count.add(5, 50)
    reporter.message("news")


def test_messages_have_no_control_characters() -> None:
    out = io.StringIO()
    Reporter(out=out).message("/a\x1b[2J")
    assert out.getvalue() == "/a\\x1b[2J\n"


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_one_line_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY_ON_A_TERMINAL", 0.01)
    out = _Terminal()
    with Reporter(out=out).step("load", 10):
        wait_until(lambda: out.getvalue().count("\r") > 2, "the line is written again")
    assert out.getvalue().count("\n") == 1


def test_scripts_get_keys_that_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.01)
    out = _Terminal()
    reporter = Reporter(as_json=True, out=out)
    with reporter.step("load", 10) as count:
        count.update("0", 4, 40)
        wait_until(lambda: '"count": 4' in out.getvalue(), "a line is told")
    reporter.message("news")
    *lines, last, news = map(json.loads, out.getvalue().splitlines())
    assert [list(line) for line in (lines[-1], last)] == [KEYS, KEYS]
    assert (lines[-1]["done"], lines[-1]["expected"]) == (False, 10)
    assert (last["done"], last["seconds_left"]) == (True, 0)
    assert news == {"event": "message", "text": "news"}


def test_a_step_that_fails_is_not_done() -> None:
    out = io.StringIO()
    with pytest.raises(ValueError, match="no"), Reporter(out=out).step("load"):
        raise ValueError("no")
    assert out.getvalue() == ""
