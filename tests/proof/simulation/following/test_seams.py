"""What pipeline.follow uses of clocks, chance and output is replaced, and put back."""

import ast
import time
from importlib import import_module
from pathlib import Path

from pipeline.etcd import load
from pipeline.follow import files, finishing, inward, output, outward, patience, target
from proof.simulation.following import seams

_MODULES = (files, finishing, inward, output, outward, patience, target)


def test_everything_is_put_back() -> None:
    before = [dict(vars(module)) for module in _MODULES]
    with seams.installed(lambda _who, _text: None, 1, 1):
        assert vars(inward)["time"] is not time
        assert "print" in vars(inward)
    assert [dict(vars(module)) for module in _MODULES] == before


def test_each_module_that_has_a_clock_or_chance_is_in_the_list() -> None:
    """Else a world would differ from run to run."""
    folder = Path(inward.__file__ or "").parent
    modules = [import_module(f"pipeline.follow.{file.stem}") for file in folder.glob("[a-z]*.py")]
    assert len(modules) > len(_MODULES)
    with seams.installed(lambda _who, _text: None, 1, 1):
        for module in [*modules, load]:
            tree = ast.parse(Path(module.__file__ or "").read_text())
            imported = {
                name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names
            }
            for name in imported & {"time", "secrets", "random", "datetime"}:
                assert isinstance(vars(module)[name], type), f"{module.__name__}.{name}"
