"""The map of the room, in its docstring."""

import re
from pathlib import Path

from proxy import frontend


def test_the_map_names_each_module_once() -> None:
    assert frontend.__doc__ is not None
    named = re.findall(r"^  (\w+) {2,}", frontend.__doc__, re.MULTILINE)
    there = {path.stem for path in Path(frontend.__file__).parent.glob("*.py")} - {"__init__"}
    assert sorted(named) == sorted(there)
