"""A file of the worlds that were simulated, a JSON line each: a stopped campaign continues with it."""

import json
from pathlib import Path
from typing import NamedTuple

from proof.simulation.outcome import Outcome


class World(NamedTuple):
    """What to simulate."""

    kind: str  # as of an Outcome
    seed: int
    hours: float  # simulated


class BadRecord(ValueError):
    """The file is not one of these."""


def read(file: Path) -> dict[World, Outcome]:
    """The worlds in a file; none if there is no file. Raises BadRecord, OSError."""
    if not file.exists():
        return {}
    found: dict[World, Outcome] = {}
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        try:
            fields = json.loads(line)
            hours = fields.pop("hours")
            outcome = Outcome(**fields, trace=[])
        except (ValueError, KeyError, TypeError) as error:
            raise BadRecord(f"{file}, line {number}: no world of a simulation: {error}") from error
        found[World(outcome.kind, outcome.seed, hours)] = outcome
    return found


def append(file: Path, world: World, outcome: Outcome) -> None:
    """Add a world. Its trace is left out, since the seed gives it again."""
    fields = outcome._asdict()
    del fields["trace"]
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps({"hours": world.hours, **fields}) + "\n")
