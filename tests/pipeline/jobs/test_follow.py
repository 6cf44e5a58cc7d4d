"""`follow` and `export --follow`: what a command line is told that cannot be obeyed."""

from pathlib import Path

import pytest

from lab.servers import free_port
from pipeline.__main__ import main
from pipeline.follow.tail import Unsettled
from pipeline.jobs import follow as job


@pytest.fixture
def nobody() -> list[str]:
    return ["--etcd", f"http://127.0.0.1:{free_port()}"]


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--zxid", "5x", "'5x' is no zxid, such as 0x"),
        ("--timeout", "-1", "'-1' is not a number of seconds"),
        ("--patience", "long", "'long' is not a number of seconds"),
        ("--patience", "inf", "'inf' is not a number of seconds"),
        ("--repair", "gap", "invalid choice"),
        ("--max-request-bytes", "0", "from 1 up"),
    ],
)
def test_wrong_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, value: str, words: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["follow", str(tmp_path), f"{option}={value}"])
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_a_timeout_wants_an_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], nobody: list[str]
) -> None:
    for command in (
        ["follow", str(tmp_path)],
        ["export", str(tmp_path / "data"), "--follow"],
        ["export", str(tmp_path / "data")],
    ):
        assert main([*command, *nobody, "--timeout=1"]) == 2
        assert "--timeout go" in capsys.readouterr().err


def test_no_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str], nobody: list[str]) -> None:
    assert main(["follow", str(tmp_path / "none"), *nobody]) == 2
    assert "none is no directory" in capsys.readouterr().err


def test_a_log_that_does_not_go_on_has_an_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], nobody: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stuck(*_arguments: object) -> int:
        raise Unsettled("stopped at zxid 0x5: words")

    monkeypatch.setattr(job, "_follow", stuck)
    assert main(["follow", str(tmp_path), *nobody]) == 1
    assert capsys.readouterr().err == "python -m pipeline: stopped at zxid 0x5: words\n"


@pytest.mark.parametrize("option", ["--keep-sessions", "--dry-run", "--compression=gz"])
def test_options_of_one_snapshot_do_not_go_with_following(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], nobody: list[str], option: str
) -> None:
    assert main(["export", str(tmp_path / "data"), *nobody, "--follow", option]) == 2
    assert f"{option.partition('=')[0]} does not go with --follow" in capsys.readouterr().err
    assert main(["export", f"parquet:{tmp_path}/table", *nobody, "--follow"]) == 2
    assert "not a table" in capsys.readouterr().err
