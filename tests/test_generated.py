"""Generated files are what their sources give, and locked packages run on the oldest Python that we name."""

import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

REPOSITORY = Path(__file__).resolve().parents[1]
DEBIANS_PYTHON = "3.11.2"


def test_the_messages_of_etcd_are_generated_from_the_present_declaration(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "tools/generate_rpc.py", str(tmp_path)], cwd=REPOSITORY, check=True)
    for name in ("rpc_pb2.py", "rpc_pb2.pyi"):
        generated = tmp_path / "proxy" / "etcd" / name
        assert (REPOSITORY / "proxy" / "etcd" / name).read_text() == generated.read_text(), "run: make proto"


@pytest.mark.parametrize(
    "lock", sorted((REPOSITORY / "requirements").glob("*.txt")), ids=lambda lock: lock.stem
)
def test_what_is_locked_runs_on_the_python_of_debian(lock: Path) -> None:
    """`make lock` runs on whatever Python its user has; Debian 12 has an older 3.11."""
    pinned = re.findall(r"^([\w.-]+)==", lock.read_text(), re.MULTILINE)
    assert pinned
    too_new = []
    for name in pinned:
        try:
            wanted = metadata(name).json.get("requires_python")
        except PackageNotFoundError:
            continue  # only what is installed here says what it needs
        if isinstance(wanted, str) and DEBIANS_PYTHON not in SpecifierSet(wanted):
            too_new.append(f"{name}: Python {wanted}")
    assert too_new == []
