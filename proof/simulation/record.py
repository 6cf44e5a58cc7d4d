"""A file of the worlds that were simulated, a JSON line each: a stopped campaign continues with it.

Each line has a digest of the code that was simulated, since a seed means another world to other code.
"""

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

from proof.simulation.outcome import Outcome
from proof.simulation.planted import ROOT

_CODE = ("codec", "schema", "proxy", "lab", "proof/history", "proof/naive", "proof/simulation")


class WorldSpec(NamedTuple):
    """The kind, the seed and the length of one world."""

    kind: str  # as of an Outcome
    seed: int
    hours: float  # simulated


class BadRecord(ValueError):
    """The file is not one of these, or of other code."""


@cache
def code() -> str:
    """A digest of the code that a world depends on."""
    digest = hashlib.sha256()
    for folder in _CODE:
        for file in sorted((ROOT / folder).rglob("*.py")):
            digest.update(f"{file.relative_to(ROOT)}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def read(file: Path) -> dict[WorldSpec, Outcome]:
    """The worlds in a file; none if there is no file. Raises BadRecord, OSError."""
    now = code()  # before the files change, if they do
    if not file.exists():
        return {}
    found: dict[WorldSpec, Outcome] = {}
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        try:
            fields = json.loads(line)
            made_by, hours = fields.pop("code"), fields.pop("hours")
            outcome = Outcome(**fields, trace=[])
        except (ValueError, KeyError, TypeError) as error:
            raise BadRecord(f"{file}, line {number}: no world of a simulation: {error}") from error
        if made_by != now:
            raise BadRecord(f"{file}, line {number}: the code has changed since. Use a new file")
        found[WorldSpec(outcome.kind, outcome.seed, hours)] = outcome
    return found


def append(file: Path, world: WorldSpec, outcome: Outcome) -> None:
    """Add a world. Its trace is left out, since the seed gives it again."""
    fields = outcome._asdict()
    del fields["trace"]
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps({"code": code(), "hours": world.hours, **fields}) + "\n")
