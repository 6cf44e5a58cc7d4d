"""What a command took is what it and its children took."""

import sys

import pytest

from bench.errors import BenchError
from bench.pipeline import measure

# Holds 64 MiB and burns a second of CPU, while it is looked at several times.
_CHILD = """
import time
held = bytearray(b"1" * (64 << 20))
while time.process_time() < 1:
    pass
print(len(held))
"""
_PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {_CHILD!r}], check=True)"


def test_children_count() -> None:
    found = measure.run([sys.executable, "-c", _PARENT])
    assert found.output == f"{64 << 20}\n"
    assert found.workers > 64
    assert 0 < found.cpu_python == found.cpu
    assert found.jvm == found.cpu_jvm == found.etcd == 0


def test_a_command_that_fails_is_told() -> None:
    with pytest.raises(BenchError, match="ended with 3: for a reason"):
        measure.run([sys.executable, "-c", "import sys; print('for a reason', file=sys.stderr); sys.exit(3)"])
