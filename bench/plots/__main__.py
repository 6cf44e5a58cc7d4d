"""`python -m bench.plots`: write the documents' figures and tables anew from the results, or check them."""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from bench.errors import BenchError
from bench.plots import figures
from bench.plots.blocks import blocks
from bench.plots.comparison import look_alike
from bench.plots.document import BadMark, filled
from bench.plots.results import Found, read
from bench.plots.style import svg
from bench.report import all_medians
from proxy.support.stdout import guarded
from proxy.support.usage import Parser

REPOSITORY = Path(__file__).resolve().parents[2]
DOCUMENTS = ("docs/performance.md", "README.md")
PICTURES = "docs/performance"


def drawn(found: Found) -> dict[str, str]:
    """Name -> SVG of each figure for which there are results."""
    draw: dict[str, Callable[[], Figure]] = {}
    if found.reference:
        medians = all_medians(found.reference.results)
        draw |= {"speed": partial(figures.speed, medians), "costs": partial(figures.costs, medians)}
    if found.curves:
        medians = all_medians(found.curves.results)
        if any(not cell.offered for cell, _ in medians):
            draw["throughput"] = partial(figures.throughput, medians)
        if any(cell.offered for cell, _ in medians):
            draw["latency"] = partial(figures.latency, medians)
    for name, figure_of in (("memory", figures.memory), ("sidecars", figures.sidecars)):
        if name in found.scenarios:
            draw[name] = partial(figure_of, found.scenarios[name].table)
    return {name: svg(figure) for name, figure in draw.items()}


def outputs(found: Found, root: Path) -> dict[Path, str]:
    """File -> what it is to hold, of all files that come from results. Raises BadMark."""
    pictures = drawn(found)
    texts = blocks(found, list(pictures))
    files = {root / PICTURES / f"{name}.svg": picture for name, picture in pictures.items()}
    for name in DOCUMENTS:
        path = root / name
        try:
            files[path] = filled(path.read_text(), texts)
        except BadMark as error:
            raise BadMark(f"{name}: {error}") from None
    return files


def _is_current(path: Path, text: str) -> bool:
    if not path.exists():
        return False
    return look_alike(path.read_text(), text) if path.suffix == ".svg" else path.read_text() == text


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files; with --check return 1 if one isn't what the results say."""
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
    parser.add_argument("--check", action="store_true", help="write nothing, report what would change")
    options = parser.parse_args(arguments)
    try:
        files = outputs(read(options.results), options.root)
    except (BenchError, BadMark, OSError) as error:
        print(f"bench.plots: {error}", file=sys.stderr)
        return 1
    pictures = options.root / PICTURES
    stale = sorted(set(pictures.glob("*.svg")) - set(files))
    changed = [path for path, text in files.items() if not _is_current(path, text)]
    for path in [*changed, *stale]:
        done = "differs" if options.check else "written" if path in files else "removed"
        print(path.relative_to(options.root), done)
    if options.check:
        return 1 if changed or stale else 0
    pictures.mkdir(exist_ok=True)
    for path in changed:
        path.write_text(files[path])
    for path in stale:
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(guarded(main, "bench.plots"))
