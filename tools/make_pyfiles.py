"""Write our modules as a zip for spark-submit --py-files: what Spark's workers import."""

import sys
import zipfile
from argparse import ArgumentParser
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(_ROOT))

from tools import folders  # noqa: E402


def write(target: Path) -> None:
    """Write the zip; equal sources give equal bytes."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in ("zketcd", *folders.product(below="pipeline")):
            for file in sorted((_ROOT / package).rglob("*.py")):
                name = zipfile.ZipInfo(file.relative_to(_ROOT).as_posix())
                name.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(name, file.read_bytes())


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="the archive to write")
    write(parser.parse_args().file)
