"""Build the site of the documents: copy the pages and their pictures, then let Sphinx make HTML of them.

Pages link to others outside docs/, and Sphinx reads one directory. The copy keeps the repository's layout, so
every link works in both places.
"""

import shutil
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_PAGES = ["*.md", "LICENSE", "*/README.md", "*/*/README.md", "bench/notes/*.md", "examples/*.md"]
_PAGES += ["docs/*.md", "docs/decisions/*.md", "docs/**/*.svg", "docs/**/*.png"]
_SETTINGS = _ROOT / "docs" / "site"


def pages(root: Path) -> list[Path]:
    """The files of the site, relative to the repository's root, sorted."""
    found = {file.relative_to(root) for pattern in _PAGES for file in root.glob(pattern)}
    return sorted(file for file in found if not file.parts[0].startswith((".", "build", "data")))


def build(root: Path, source: Path, site: Path) -> int:
    """Copy the pages to `source` and build `site` from them; Sphinx's exit code: 1 for a dead link."""
    shutil.rmtree(source, ignore_errors=True)
    shutil.rmtree(site, ignore_errors=True)
    for page in pages(root):
        target = source / page
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / page, target)
    with (source / "README.md").open("a") as start:
        start.write((root / "docs" / "site" / "contents.md").read_text())
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "--quiet", "-c", str(_SETTINGS)]
    command += ["-d", str(source.with_suffix(".trees")), str(source), str(site)]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where docs and site are made; older ones are replaced")
    parser.add_argument("root", type=Path, nargs="?", default=_ROOT, help="the repository")
    given = parser.parse_args()
    folder = given.folder.resolve()
    sys.exit(build(given.root.resolve(), folder / "docs", folder / "site"))
