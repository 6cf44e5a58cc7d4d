"""Faults that are planted in the code are found; all of them by `make simulate ARGS=--planted`."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from proof.simulation.campaign import find
from proof.simulation.planted import DoesNotApply, Planted, changed, read_planted

# One of each kind of world and judge, that shows soon. SIMULATION_PLANTED=all runs the others as well.
_QUICK = ("no rollback", "events after replies", "finished without a seal", "a promotion keeps a session")
_QUICK_HOURS = 0.004  # in which these show
_ALL = os.environ.get("SIMULATION_PLANTED") == "all"
_FAULTS = read_planted()
# It would be found, whatever the fault was meant to show.
_CRASH = re.compile(r"\b(Attribute|Name|Type)Error\(")


def test_there_are_enough_of_them_with_names_of_their_own() -> None:
    names = {fault.name for fault in _FAULTS}
    assert len(names) == len(_FAULTS) >= 60
    assert set(_QUICK) <= names


def test_the_planted_faults_apply_to_the_source(tmp_path: Path) -> None:
    """Without a name that is not defined."""
    for fault in _FAULTS:
        folder = tmp_path / fault.name
        folder.mkdir()
        for number, text in enumerate(changed(fault).values()):
            (folder / f"{number}.py").write_text(text)
    rules = ["--isolated", "--select", "E9,F821,F823", "--no-cache"]
    checked = subprocess.run(
        [sys.executable, "-m", "ruff", "check", *rules, tmp_path], check=False, capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout


def test_a_fault_whose_text_is_not_in_the_source_does_not_apply(tmp_path: Path) -> None:
    fault = _FAULTS[0]
    (change, *_) = fault.changes
    file = tmp_path / change.file
    file.parent.mkdir(parents=True)
    for text in ("something else", change.find * 2):
        file.write_text(text)
        with pytest.raises(DoesNotApply):
            changed(fault, tmp_path)


@pytest.mark.parametrize(
    "fault",
    [fault for fault in _FAULTS if fault.world != "calm" and (_ALL or fault.name in _QUICK)],
    ids=lambda f: f.name,
)
def test_a_planted_fault_is_found(fault: Planted) -> None:
    found = find(fault, seed=1, control=_ALL, hours=None if _ALL else _QUICK_HOURS)
    assert found.violation is not None, f"not found: {fault.what}"
    assert not _CRASH.search(found.violation.what), "found by a mistake in its own text"
    assert found.control is None
