"""Parts of documents that are made from the code: between a mark with `GOLDEN=write` and `<!-- end -->`."""

import os
from collections.abc import Iterable
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]


def check_part(page: str, name: str, made: Iterable[str]) -> None:
    """The part of a page has these lines. With GOLDEN=write in the environment, write them first."""
    file = REPOSITORY / page
    before, mark, rest = file.read_text(encoding="utf-8").partition(f"<!-- {name}: by `GOLDEN=write` -->\n")
    part, end, after = rest.partition("<!-- end -->")
    assert end, f"{page} has no part {name}"
    lines = "".join(f"{line}\n" for line in made)
    if os.environ.get("GOLDEN") == "write":
        file.write_text(before + mark + lines + end + after, encoding="utf-8")
    else:
        assert part == lines, "GOLDEN=write writes it"
