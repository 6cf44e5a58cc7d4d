"""Arguments of the command line have bounds, which errors name."""

import argparse
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.arguments import count, names_of, number, output_folder, rate, seconds, size, whole


@pytest.mark.parametrize(
    ("parse", "good", "bad"),
    [
        (count, ["1", "0999"], ["0", "-1", "1.0", "", "²", "9" * 5000]),
        (size, ["0"], ["-1"]),
        (whole(1, 100), ["100"], ["101"]),
        (seconds, ["0.5", "86400"], ["0", "nan", "inf", "soon", "86401"]),
        (rate, ["0"], ["-1"]),
        (number(1), ["1"], ["1.1"]),
        (names_of(["a", "b"]), ["a", "b,a"], ["", "a,c"]),
    ],
)
def test_bounds(parse: Callable[[str], object], good: list[str], bad: list[str]) -> None:
    for value in good:
        parse(value)
    for value in bad:
        with pytest.raises(argparse.ArgumentTypeError):
            parse(value)


def test_folders_to_write_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (tmp_path, tmp_path / "a" / "b"):
        assert output_folder(str(folder)) == folder
    assert not (tmp_path / "a").exists()
    (tmp_path / "file").touch()
    with pytest.raises(argparse.ArgumentTypeError, match="file is not a folder"):
        output_folder(str(tmp_path / "file" / "a"))
    monkeypatch.setattr("os.access", lambda _path, _mode: False)  # root may write everywhere
    with pytest.raises(argparse.ArgumentTypeError, match="cannot be written"):
        output_folder(str(tmp_path / "new"))
