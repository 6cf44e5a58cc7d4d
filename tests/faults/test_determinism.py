"""The state machine makes the same of a log in every process: other hash seeds, other versions of Python.

ZKETCD_TEST_PYTHONS: other Pythons to compare with, separated by colons. Without it, all that are on PATH
and in pyenv are taken.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from lab.servers.process import REPOSITORY

_MINORS = range(11, 20)  # requires-python

# Compiled for one version of Python only, and no part of the state machine: zlib takes its place.
_CRAMJAM = """
import sys, types, zlib
module = types.ModuleType("cramjam")
class DecompressionError(Exception): pass
module.DecompressionError = DecompressionError
def into(data, buffer, **_):
    body = zlib.decompress(data)
    buffer[:len(body)] = body
    return len(body)
def compress(data, *_, **__):
    return zlib.compress(data)
module.zstd = types.SimpleNamespace(compress=compress, decompress_into=into)
module.lz4 = types.SimpleNamespace(compress_block=compress, decompress_block_into=into)
sys.modules["cramjam"] = module
"""
_HISTORIES = """
from proxy.state.auth.ip import IP
from proxy.state.auth.names import is_name
from proxy.state.budgets import Budgets
from proxy.state.quotas import read_limits
from schema.budgets import Rule
from tests.proxy.state.long_history import long_history
digits = list(filter(str.isdecimal, map(chr, range(0x110000))))
print([digit for digit in digits if IP.is_valid("1.2.3." + digit)])
print([digit for digit in digits if is_name("1." + digit + "=a")])
print([digit for digit in digits if read_limits(b"count=" + digit.encode())])
budgets = [Budgets() for _ in range(0xA0, 0xD800)]
for code, budget in enumerate(budgets, 0xA0):
    budget.set(Rule("/" + chr(code), 1, 0), "a", 0)
print([budget.hash() for budget in budgets])
for seed in (11, 12, 13):
    print(long_history(seed))
"""


def version_of(python: str) -> tuple[int, int] | None:
    """Its version, None if it does not run."""
    ask = "import sys; print(*sys.version_info[:2])"
    try:
        said = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    major, minor = map(int, said.stdout.split())
    return major, minor


def other_pythons() -> dict[tuple[int, int], str]:
    """Pythons of other versions that can run our code."""
    wanted = os.environ.get("ZKETCD_TEST_PYTHONS", "")
    candidates: list[str | None] = []
    if wanted:
        candidates += wanted.split(":")
    else:
        candidates += [shutil.which(f"python3.{minor}") for minor in _MINORS]
        versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
        candidates += map(str, sorted(versions.glob("3.*/bin/python3")))
    found: dict[tuple[int, int], str] = {}
    for python in filter(None, candidates):
        version = version_of(python)
        if version is not None and version[1] in _MINORS and version != sys.version_info[:2]:
            found.setdefault(version, python)
    return found


def histories_of(python: str, hash_seed: int) -> str:
    """What a Python makes of long random histories."""
    source = _CRAMJAM + _HISTORIES
    path = os.pathsep.join([str(REPOSITORY), sysconfig.get_paths()["purelib"]])
    result = subprocess.run(
        [python, "-c", source],
        env={"PATH": os.environ["PATH"], "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
        timeout=240,
    )
    assert result.returncode == 0, f"{python}: {result.stderr[-2000:]}"
    return result.stdout


@pytest.mark.long
def test_other_processes_make_the_same_of_a_log() -> None:
    """This Python with other hash seeds, and each other version that the machine has: Debian 12 has none."""
    others = other_pythons() | {sys.version_info[:2]: sys.executable}
    expected = histories_of(sys.executable, 0)
    assert len(expected) > 3_000
    for hash_seed, (version, python) in enumerate(sorted(others.items()), 1):
        assert histories_of(python, hash_seed) == expected, f"Python {version}"
