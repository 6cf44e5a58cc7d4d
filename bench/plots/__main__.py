"""`python -m bench.plots`: write the documents' curves and tables anew from the results, or check tables."""

import sys
from collections.abc import Sequence
from pathlib import Path

from bench.errors import BenchError
from bench.plots.blocks import BadMark, blocks, filled
from bench.plots.figures import drawn
from bench.plots.results import Found, read
from proxy.support.stdout import guarded
from proxy.support.usage import Parser

REPOSITORY = Path(__file__).resolve().parents[2]
DOCUMENTS = ("docs/performance.md", "README.md")
PICTURES = "docs/performance"


def documents(found: Found, root: Path) -> dict[Path, str]:
    """File -> what it is to hold, of all documents. Raises BadMark."""
    texts = blocks(found)
    files = {}
    for name in DOCUMENTS:
        try:
            files[root / name] = filled((root / name).read_text(), texts)
        except BadMark as error:
            raise BadMark(f"{name}: {error}") from None
    return files


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files; with --check return 1 if a document isn't what the results say."""
    parser = Parser(prog="python -m bench.plots", description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "--results",
        type=Path,
        default=REPOSITORY / "bench" / "results",
        metavar="FOLDER",
        help="where reference.json, curves.json and scenarios.json are (default: bench/results)",
    )
    parser.add_argument(
        "--root",
        type=Path,
        default=REPOSITORY,
        metavar="FOLDER",
        help=f"where {', '.join(DOCUMENTS)} and {PICTURES}/ are (default: this repository)",
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing, report which documents would change"
    )
    options = parser.parse_args(arguments)
    try:
        found = read(options.results)
        files = documents(found, options.root)
    except (BenchError, BadMark, OSError) as error:
        print(f"bench.plots: {error}", file=sys.stderr)
        return 1
    if options.check:
        changed = [path for path, text in files.items() if path.read_text() != text]
        for path in changed:
            print(path.relative_to(options.root), "differs")
        return 1 if changed else 0
    for name, picture in drawn(found.curves).items():
        files[options.root / PICTURES / f"{name}.svg"] = picture
    for path, text in files.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        print(path.relative_to(options.root), "written")
    return 0


if __name__ == "__main__":
    sys.exit(guarded(main, "bench.plots"))
