"""The list of what a simulation replaces is complete, and nothing stays replaced."""

import ast
from pathlib import Path

from proof.simulation import seams
from proof.simulation.world import World

REPOSITORY = Path(__file__).resolve().parents[3]
_SOURCES = ("proxy", "schema", "codec")
_OF_TIME_AND_CHANCE = {"time", "random", "secrets", "uuid", "datetime"}
# `environment` is where clocks and randomness come from. A simulated proxy does not run the command line. The
# messages' form has the time written down in them.
_NOT_SIMULATED = (
    "proxy.support.environment",
    "proxy.ctl.",
    "proxy.support.logs",
    "proxy.admin.four_letter",
)


def _uses() -> dict[tuple[str, str], set[str]]:
    """(module, what it imports of time and chance): names imported from there, none for the module itself."""
    found: dict[tuple[str, str], set[str]] = {}
    for source in _SOURCES:
        for path in sorted((REPOSITORY / source).rglob("*.py")):
            module = ".".join(path.relative_to(REPOSITORY).with_suffix("").parts)
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    for name in node.names:
                        if name.name in _OF_TIME_AND_CHANCE:
                            found.setdefault((module, name.name), set())
                elif isinstance(node, ast.ImportFrom) and node.module in _OF_TIME_AND_CHANCE:
                    found.setdefault((module, node.module), set()).update(name.name for name in node.names)
    return found


def test_every_clock_and_every_source_of_chance_is_replaced() -> None:
    uses = {key: names for key, names in _uses().items() if not key[0].startswith(_NOT_SIMULATED)}
    clocks = {module for (module, what), names in uses.items() if what == "time" and not names}
    functions = {(module, name) for (module, what), names in uses.items() if what == "time" for name in names}
    chance = {module for (module, what) in uses if what == "secrets"}
    others = {key for key in uses if key[1] not in ("time", "secrets")}
    assert clocks == set(seams.CLOCKS)
    assert functions == set(seams.CLOCK_FUNCTIONS)
    assert chance == set(seams.CHANCE)
    assert others == set()


def test_no_clock_is_kept_as_a_default() -> None:
    """`clock=time.monotonic` in a signature would be the real one for ever."""
    kept = []
    for source in _SOURCES:
        for path in sorted((REPOSITORY / source).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
                    kept += [
                        f"{path.name}:{default.lineno}"
                        for default in defaults
                        if isinstance(default, ast.Attribute) and ast.unparse(default).startswith("time.")
                    ]
    assert kept == []


def test_everything_is_put_back() -> None:
    from proxy.support.environment import Clock

    time = vars(Clock)["time"]
    with seams.installed(World(1)):
        assert vars(Clock)["time"] is not time
    assert vars(Clock)["time"] is time
