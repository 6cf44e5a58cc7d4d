"""The top folders of the repository: which have Python, and which of these users run."""

import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def sources(root: Path = ROOT) -> list[str]:
    """The folders with Python files, as SOURCES in the Makefile."""
    return sorted({path.parent.name for path in root.glob("[!.]*/*.py")})


def contracts(root: Path = ROOT) -> dict[str, dict[str, Any]]:
    """import-linter's contracts by their names."""
    configuration = tomllib.loads((root / "pyproject.toml").read_text())
    return {contract["id"]: contract for contract in configuration["tool"]["importlinter"]["contracts"]}


def product(root: Path = ROOT, below: str = "") -> list[str]:
    """The packages that users run, or one of them with those that it may import; the uppermost first."""
    layers = [re.findall(r"\w+", layer) for layer in contracts(root)["house"]["layers"]]
    while below and below not in layers.pop(0):
        pass
    return [below] * bool(below) + [package for layer in layers for package in layer]
