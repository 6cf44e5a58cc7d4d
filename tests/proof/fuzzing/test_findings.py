"""Findings become small, and are written with the command that repeats them."""

from pathlib import Path

from proof.fuzzing.findings import minimised, write
from proof.fuzzing.target import finding_of
from tests.proof.fuzzing.defects import TARGETS

TARGET = TARGETS["Wrong"]

INPUT = bytes((0x15, 0x25, 0x35)) + bytes(range(1, 100))


def test_a_finding_is_made_small() -> None:
    finding = finding_of(TARGET, INPUT)
    assert finding is not None
    small = minimised(TARGET, INPUT, finding.signature)
    assert small == bytes((0x15, 0x25, 0x35)) + bytes(5)


def test_a_good_input_is_none() -> None:
    assert finding_of(TARGET, b"") is None


def test_a_finding_is_written(tmp_path: Path) -> None:
    finding = finding_of(TARGET, INPUT)
    assert finding is not None
    lines = write(TARGET, INPUT, finding, tmp_path)
    (file,) = tmp_path.iterdir()
    assert file.read_bytes() == INPUT
    assert lines[0] == "FINDING in Wrong: Wrong: two ways disagree"
    assert lines[-1].endswith(f"python -m proof.fuzzing --targets Wrong --repeat {file}")
