"""The zip for Spark's workers holds all that they import."""

import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]


def test_the_commands_and_sources_come_from_the_zip_alone(tmp_path: Path) -> None:
    archive = tmp_path / "made" / "pyfiles.zip"
    maker = [sys.executable, str(REPOSITORY / "tools" / "make_pyfiles.py"), str(archive)]
    subprocess.run(maker, check=True)
    code = "import zketcd.__main__ as a, pipeline.sources as b, proxy.etcd as c; print(a, b, c)"
    told = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(archive)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.count(str(archive)) == 3
    before = archive.read_bytes()
    subprocess.run(maker, check=True)
    assert archive.read_bytes() == before
