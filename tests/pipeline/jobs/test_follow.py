"""The exit code of `follow`; wrong command lines are in test_failure_wrong_inputs.py."""

from pathlib import Path

import pytest

from pipeline.__main__ import main
from pipeline.follow.tail import Unsettled
from pipeline.jobs import follow as job


def test_a_log_that_does_not_go_on_has_an_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stuck(*_arguments: object) -> int:
        raise Unsettled("stopped at zxid 0x5: words")

    monkeypatch.setattr(job, "_follow", stuck)
    assert main(["follow", str(tmp_path), "--etcd", "http://127.0.0.1:1"]) == 1
    assert capsys.readouterr().err == "python -m pipeline: stopped at zxid 0x5: words\n"
