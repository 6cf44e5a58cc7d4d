"""`python -m proof.torture.compare` on files of figures."""

import json
from pathlib import Path

import pytest

from proof.torture.availability import measured
from proof.torture.compare import main


def _figures(path: Path, system: str, recovery: float) -> str:
    episode = measured("kill-leader", "", (0.0, 1.0, 1.0 + recovery), {"a": []}, {"a": []})
    path.write_text(json.dumps({"system": system, "episodes": [episode._asdict()]}))
    return str(path)


def test_several_files_of_a_system_are_taken_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [
        _figures(tmp_path / "1.json", "zketcd", 1.0),
        _figures(tmp_path / "2.json", "ZooKeeper 3.9", 5.0),
        _figures(tmp_path / "3.json", "zketcd", 3.0),
    ]
    assert main(files) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "recovery, s: zketcd | recovery, s: ZooKeeper 3.9 |" in lines[0]
    assert lines[2].startswith("| kill-leader | 2, 1 |")
    assert lines[2].endswith("| 2.0 / 3.0 | 5.0 / 5.0 |")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"system": "a", "episodes": [{"fault": "b"}]}', None])
def test_what_is_no_file_of_figures(
    text: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "figures"
    if text is not None:
        path.write_text(text)
    assert main([str(path)]) == 2
    assert str(path) in capsys.readouterr().err
