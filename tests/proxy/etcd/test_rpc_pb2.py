"""The checked-in messages are what rpc.proto says."""

import shutil
import subprocess
import sys
from pathlib import Path

from lab.servers.process import REPOSITORY


def test_the_generated_module_is_up_to_date(tmp_path: Path) -> None:
    folder = tmp_path / "proxy" / "etcd"
    folder.mkdir(parents=True)
    shutil.copy(REPOSITORY / "proxy" / "etcd" / "rpc.proto", folder)
    subprocess.run(
        [sys.executable, str(REPOSITORY / "tools" / "generate_rpc.py")], cwd=tmp_path, check=True, timeout=60
    )
    for name in ("rpc_pb2.py", "rpc_pb2.pyi"):
        assert (folder / name).read_text() == (REPOSITORY / "proxy" / "etcd" / name).read_text()
