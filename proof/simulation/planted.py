"""Faults planted on purpose: a simulation that does not find them proves nothing.

Each is a small change of the source, as a mistake of a programmer would be. A file of its own in
`planted_faults` says which text is replaced in which module, and by what, and which faults of the environment
show the mistake within a few seeds. The change is made in a copy of the source, which a process of its own
imports: nothing is replaced in the code that runs here.
"""

import shutil
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
_FOLDER = Path(__file__).with_name("planted_faults")


class Change(NamedTuple):
    """One replacement in one file."""

    file: str
    find: str  # the text is there exactly once
    replace: str


class Planted(NamedTuple):
    """One planted fault."""

    name: str
    what: str
    faults: Sequence[str]  # of the environment: they show it
    changes: Sequence[Change]
    world: str  # which kind of worlds has to find it: "stormy", "standby"; "calm": it shows only after hours
    tests: str  # the file of tests that has to find it, since no world has what it is in; else ""


class DoesNotApply(Exception):
    """The text that a planted fault replaces is not in the source, or more than once."""


def read_planted() -> list[Planted]:
    """All planted faults, those of calm worlds last."""
    found = [_read(file) for file in sorted(_FOLDER.glob("*.toml"))]
    return sorted(found, key=lambda fault: fault.world == "calm")


def _read(file: Path) -> Planted:
    fields = tomllib.loads(file.read_text(encoding="utf-8"))
    changes = [Change(**change) for change in fields["changes"]]
    return Planted(
        file.stem.replace("-", " "),
        fields["what"],
        fields.get("faults", ()),
        changes,
        fields.get("world", "stormy"),
        fields.get("tests", ""),
    )


def changed(fault: Planted, root: Path = ROOT) -> dict[str, str]:
    """The text of each file that the fault changes. Raises DoesNotApply."""
    texts: dict[str, str] = {}
    for file, find, replace in fault.changes:
        text = texts.get(file) or (root / file).read_text(encoding="utf-8")
        if text.count(find) != 1:
            raise DoesNotApply(f"{fault.name}: {text.count(find)} times in {file}, not once:\n{find}")
        texts[file] = text.replace(find, replace)
    return texts


@contextmanager
def planted(fault: Planted) -> Iterator[Path]:
    """A copy of the source with the fault in it: the folder from which a process has to import."""
    texts = changed(fault)
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        tree = Path(folder)
        copied = {Path(file).parts[0] for file in texts}
        for package in ROOT.glob("*/__init__.py"):
            name = package.parent.name
            if name in copied:
                shutil.copytree(ROOT / name, tree / name)  # with what is compiled, which stays valid
            else:
                (tree / name).symlink_to(ROOT / name)
        for file, text in texts.items():
            (tree / file).write_text(text, encoding="utf-8")
        yield tree
