"""Take out of each lock in requirements/ what the locks that it includes have. `make lock` runs this last.

Where NAME.in has `-r OTHER.in`, NAME.txt gets `-r OTHER.txt`. `-c OTHER.txt` in NAME.in made the pins equal.
"""

import re
from argparse import ArgumentParser
from pathlib import Path

_FOLDER = Path(__file__).resolve().parents[1] / "requirements"
_PIN = re.compile(r"^[\w.\[\]-]+==.*\n(?:    .*\n)*", re.MULTILINE)


def included(name: str) -> list[str]:
    """The names of the locks that a lock includes itself."""
    return re.findall(r"^-r ([\w-]+)\.in\b", (_FOLDER / f"{name}.in").read_text(), re.MULTILINE)


def pins(name: str) -> set[str]:
    """The pins with their hashes of a lock and of those that it includes."""
    own = set(_PIN.findall((_FOLDER / f"{name}.txt").read_text()))
    return own.union(*map(pins, included(name)))


def nest(name: str) -> None:
    """Write a lock without the pins of those that it includes."""
    if others := included(name):
        known = set[str]().union(*map(pins, others))
        lock = _FOLDER / f"{name}.txt"
        text = _PIN.sub(lambda pin: "" if pin[0] in known else pin[0], lock.read_text())
        header, pinned = re.split(r"(?<=make lock\n)(?:-r .*\n)*", text, maxsplit=1)
        lock.write_text(header + "".join(f"-r {other}.txt\n" for other in others) + pinned)


if __name__ == "__main__":
    ArgumentParser(description=__doc__).parse_args()
    for each in sorted(_FOLDER.glob("*.in")):
        nest(each.stem)
