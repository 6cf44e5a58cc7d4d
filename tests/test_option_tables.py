"""The tables of docs/options.md have each option of the server, with its default."""

import re
from pathlib import Path

from proxy.config import parser

_PAGE = Path(__file__).resolve().parents[1] / "docs" / "options.md"
# Defaults that the page writes as people do.
_WRITTEN = {str(64 << 20): "64 MiB"}


def _rows() -> dict[str, list[str]]:
    """The cells of each option's row."""
    found: dict[str, list[str]] = {}
    for table in _PAGE.read_text(encoding="utf-8").split("| option | default | meaning |\n")[1:]:
        for line in table.partition("\n\n")[0].splitlines()[1:]:
            cells = [cell.strip() for cell in line.split("|")[1:4]]
            for option in re.findall(r"--[a-z0-9-]+", cells[0]):
                assert option not in found, f"{option} is in two rows"
                found[option] = cells
    return found


def test_each_option_has_its_row() -> None:
    options = {action.option_strings[0] for action in parser()._actions} - {"-h"}
    assert _rows().keys() == options


def test_rows_have_other_names_and_defaults() -> None:
    rows = _rows()
    for action in parser()._actions:
        name, *others = action.option_strings
        if name == "-h":
            continue
        for other in others:
            assert f"`{other}`" in rows[name][2], f"{other}, another name of {name}"
        if action.default:
            written = _WRITTEN.get(str(action.default), str(action.default))
            assert written in re.sub(r"(?<=\d),(?=\d{3})", "", rows[name][1]), f"the default of {name}"
