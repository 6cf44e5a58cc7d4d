"""Write the tables of docs/options.md from the options of `zketcd serve`, as their --help has them.

    PYTHONPATH=. python tools/make_options.py

The mark before each table names its options, without dashes. Each option is in one table.
"""

import argparse
import re
import sys
from argparse import Action
from pathlib import Path

from proxy.config import parser

_PAGE = Path(__file__).resolve().parents[1] / "docs" / "options.md"
_MARK = re.compile(r"<!-- options: (?P<names>[a-z0-9- \n]+) -->\n.*?<!-- end -->\n", re.DOTALL)
_HEAD = "| option | default | meaning |\n| --- | --- | --- |\n"
_DOCUMENT = re.compile(r"\bdocs/([a-z-]+\.md)")
_UNITS = {"MS": " ms", "SECONDS": " s", "BYTES": " bytes", "PERCENT": " %"}


def filled(page: str) -> str:
    """The page with its tables made anew. Raises ValueError for an option in no table, or in two."""
    left = {action.option_strings[0].removeprefix("--"): action for action in parser()._actions}
    del left["-h"]

    def fill(mark: re.Match[str]) -> str:
        rows = ""
        for name in mark["names"].split():
            if name not in left:
                raise ValueError(f"no option, or named twice: {name}")
            rows += _row(left.pop(name))
        return f"<!-- options: {mark['names']} -->\n{_HEAD}{rows}<!-- end -->\n"

    page = _MARK.sub(fill, page)
    if left:
        raise ValueError(f"in no table: {' '.join(left)}")
    return page


def _row(action: Action) -> str:
    name, *others = action.option_strings
    value = action.metavar or (f"{{{','.join(action.choices)}}}" if action.choices else "")
    also = f"; also `{'`, `'.join(others)}`" if others else ""
    meaning = _DOCUMENT.sub(r"[\1](\1)", (action.help or "").replace("%%", "%"))
    return f"| `{f'{name} {value}'.strip()}` | {_default(action)} | {meaning}{also} |\n"


def _default(action: Action) -> str:
    if action.default in (None, ""):
        return ""
    if isinstance(action.default, int):
        return f"{action.default:,}{_UNITS.get(str(action.metavar), '')}"
    return f"`{action.default}`"


def main() -> int:
    """Write the page."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("page", nargs="?", type=Path, default=_PAGE, help="default: docs/options.md")
    page: Path = arguments.parse_args().page
    try:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
    except ValueError as error:
        print(f"{page}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
