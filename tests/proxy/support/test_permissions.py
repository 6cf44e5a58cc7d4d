"""Who may read a file."""

from pathlib import Path

import pytest

from proxy.support.files import is_world_readable


@pytest.mark.parametrize(("mode", "all_read"), [(0o644, True), (0o604, True), (0o640, False), (0o600, False)])
def test_the_mode_says_who_reads(tmp_path: Path, mode: int, all_read: bool) -> None:
    file = tmp_path / "users"
    file.touch()
    file.chmod(mode)
    assert is_world_readable(str(file)) == all_read


def test_what_is_no_file_is_no_matter(tmp_path: Path) -> None:
    assert not is_world_readable(str(tmp_path))
    assert not is_world_readable("/dev/null")
    assert not is_world_readable(str(tmp_path / "none"))
