"""The server's TOML file, and the variables of the environment, as every program reads them."""

import tomllib
from collections.abc import Mapping
from typing import Any

from proxy.support.files import bounded

TABLE = "zketcd"
"""The table of the file that has the options."""
TOO_DEEP = "it is nested too deeply"
VARIABLES = "ZKETCD_"
"""What the names of environment variables begin with."""


def _content(file: str) -> dict[str, Any]:
    """What a TOML file has. Raises OSError, ValueError."""
    with open(file, "rb") as stream:
        return parsed(bounded(stream).decode("utf-8"))


def parsed(text: str) -> dict[str, Any]:
    """What the text of a TOML file has. Raises ValueError."""
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))  # which editors of Windows put before UTF-8
    except RecursionError:
        raise ValueError(TOO_DEEP) from None


def table_of(tables: Mapping[str, Any]) -> dict[str, Any]:
    """The options, of all that a TOML file has. Raises ValueError for what would be ignored."""
    stray = [name for name, value in tables.items() if name != TABLE or not isinstance(value, dict)]
    if stray:
        raise ValueError(f"options belong into a table [{TABLE}]: {', '.join(stray)}")
    return dict(tables.get(TABLE, {}))


def options_in(file: str) -> dict[str, Any]:
    """The options that a TOML file has. Raises OSError, and ValueError that names the file."""
    try:
        return table_of(_content(file))
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None
