"""Clocks and randomness are arguments, so that a simulation sees them all; nothing stays replaced."""

import ast
from collections.abc import Iterator
from pathlib import Path

from proof.simulation import seams
from proof.simulation.world import World

REPOSITORY = Path(__file__).resolve().parents[3]
_SOURCES = ("proxy", "schema", "codec")
_OF_TIME_AND_CHANCE = {"time", "random", "secrets", "uuid", "datetime"}
# The first is where clocks and chance come from; the others only format times.
_ALLOWED = (
    "proxy.support.environment",
    "proxy.support.logs",
    "proxy.admin.four_letter",
    "proxy.frontend.certificate_ends",
)


def test_no_other_module_reads_a_clock_or_draws_random_values() -> None:
    found = [
        (module, name)
        for source in _SOURCES
        for path in sorted((REPOSITORY / source).rglob("*.py"))
        if not (module := ".".join(path.relative_to(REPOSITORY).with_suffix("").parts)).startswith(_ALLOWED)
        for name in _imported(path)
        if name in _OF_TIME_AND_CHANCE
    ]
    assert found == []


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_everything_is_put_back() -> None:
    from proxy.support.environment import Clock

    time = vars(Clock)["time"]
    with seams.installed(World(1)):
        assert vars(Clock)["time"] is not time
    assert vars(Clock)["time"] is time
