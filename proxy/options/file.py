"""The server's TOML file, and the variables of the environment, as every program reads them."""

import tomllib
from typing import Any

TABLE = "zketcd"
"""The table of the file that has the options."""
VARIABLES = "ZKETCD_"
"""What the names of environment variables begin with."""


def content(file: str) -> dict[str, Any]:
    """What a TOML file has. Raises OSError, ValueError."""
    with open(file, "rb") as stream:
        return tomllib.load(stream)
