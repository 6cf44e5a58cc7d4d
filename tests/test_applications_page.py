"""docs/applications.md, held to the repository: its tests exist, and its versions are those that they run."""

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
PAGE = REPOSITORY / "docs" / "applications.md"
_PINS = "".join(lock.read_text() for lock in (REPOSITORY / "requirements").glob("*.txt"))

# The cells of a row: application, versions, how, what was seen.
_ROWS = [
    [cell.strip() for cell in line.strip("|\n").split("|")]
    for line in PAGE.read_text().splitlines()
    if line.startswith("| ")
][2:]

# Where the version comes from a lock file: the row's application and the package.
_LOCKED = {
    "ClickHouse": "chdb",
    "Spark, standalone masters": "pyspark",
    "kazoo": "kazoo",
    "aiozk": "aiozk",
    "kombu, the messages of Celery": "kombu",
    "APScheduler": "apscheduler",
}


def test_every_test_that_is_named_exists() -> None:
    named = {test for row in _ROWS for test in re.findall(r"`([\w/]*test_\w+\.py)`", row[2])}
    assert "test_applications.py" in named
    assert {test for test in named if not (REPOSITORY / "tests" / "clients" / test).exists()} == set()


def test_every_application_was_tried_in_a_named_way() -> None:
    assert [
        row for row in _ROWS if len(row) != 4 or not re.search(r"`[\w/]*test_\w+\.py`|by hand", row[2])
    ] == []


@pytest.mark.parametrize("application", _LOCKED)
def test_the_version_is_the_locked_one(application: str) -> None:
    (versions,) = (row[1] for row in _ROWS if row[0] == application)
    pin = re.search(rf"^{_LOCKED[application]}==(\S+)", _PINS, re.M)
    assert pin
    assert pin[1] in re.findall(r"[\d.]+\d", versions)
