"""The files of the page, which are part of the package."""

import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import NamedTuple

_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


class Asset(NamedTuple):
    """One file."""

    content: bytes
    type: str
    tag: str  # an ETag


def read_assets() -> Mapping[str, Asset]:
    """All files by their names. Blocks: to be called before the loop runs."""
    found = {}
    for file in files("console").joinpath("static").iterdir():
        kind = _TYPES.get("." + file.name.rpartition(".")[2])
        if kind is not None:
            content = file.read_bytes()
            found[file.name] = Asset(content, kind, f'"{hashlib.sha256(content).hexdigest()[:16]}"')
    return found
