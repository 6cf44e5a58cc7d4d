"""Generated files are what their sources give."""

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]


def test_the_messages_of_etcd_are_generated_from_the_present_declaration(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "tools/generate_rpc.py", str(tmp_path)], cwd=REPOSITORY, check=True)
    for name in ("rpc_pb2.py", "rpc_pb2.pyi"):
        generated = tmp_path / "proxy" / "etcd" / name
        assert (REPOSITORY / "proxy" / "etcd" / name).read_text() == generated.read_text(), "run: make proto"
