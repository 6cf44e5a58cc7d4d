"""`python -m proof.torture.compare FILE...`: time without service by fault, of several systems in one table.

The files are those of `python -m proof.torture --json`: of zketcd (`--comparable`) and of ZooKeeper
(`--zookeeper`). Several files of one system are taken together. The table is Markdown; each figure is
median / worst in seconds.
"""

import json
import sys
from argparse import RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

from proof.torture.availability import Episode, compared
from proxy.support.stdout import guarded
from proxy.support.usage import Parser


class NoFigures(Exception):
    """A file does not hold the figures of a run."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 2 if a file is none of `proof.torture`."""
    parser = Parser(
        prog="python -m proof.torture.compare",
        description=__doc__,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="of any system, in any order")
    options = parser.parse_args(arguments)
    systems: dict[str, list[Episode]] = {}
    try:
        for path in options.files:
            name, episodes = read(path)
            systems.setdefault(name, []).extend(episodes)
    except NoFigures as error:
        print(f"proof.torture.compare: {error}", file=sys.stderr)
        return 2
    print(*compared(systems), sep="\n")
    return 0


def read(path: Path) -> tuple[str, list[Episode]]:
    """The system of a file of figures, and its episodes. Raises NoFigures."""
    try:
        figures = json.loads(path.read_text(encoding="utf-8"))
        return str(figures["system"]), [Episode(**episode) for episode in figures["episodes"]]
    except OSError as error:
        raise NoFigures(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise NoFigures(f"{path} holds no figures of `python -m proof.torture --json`") from None


if __name__ == "__main__":
    sys.exit(guarded(main, "proof.torture.compare", failed=2))
