"""How a child process of a proxy begins."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from proxy.support import child

_BEGIN = """
import json, os, sys
from pathlib import Path
from proxy.support.child import begin
job = begin("test")
print(json.dumps([job, os.nice(0), Path("/proc/self/oom_score_adj").read_text(), os.read(0, 9).decode()]))
"""


@pytest.mark.long
def test_it_reads_its_order_and_no_byte_more_and_ends_before_the_proxy_without_memory() -> None:
    """Who starts it writes on at once."""
    told = b'{"url": "/a", "log_level": "DEBUG"}\n{"q": 1}\n'
    done = subprocess.run([sys.executable, "-c", _BEGIN], input=told, capture_output=True, check=True)
    nice = min(os.nice(0) + 10, 19)
    assert json.loads(done.stdout) == [{"url": "/a", "log_level": "DEBUG"}, nice, "500\n", '{"q": 1}\n']


@pytest.mark.long
async def test_it_takes_no_module_from_the_folder_in_which_the_proxy_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of another user would run with the rights of the proxy."""
    for module in ("json", "asyncio", "uvloop", "proxy"):
        (tmp_path / f"{module}.py").write_text("raise SystemExit(7)")
    monkeypatch.chdir(tmp_path)
    process = await child.start("proxy.log.upkeep.snapshot_writer", {})
    assert process.stdout is not None
    await process.stdout.read()
    assert await process.wait() != 7


@pytest.mark.long
@pytest.mark.parametrize("told", [b"", b"[]\n", b"{\n"])
def test_what_is_no_job(told: bytes) -> None:
    done = subprocess.run([sys.executable, "-c", _BEGIN], input=told, capture_output=True, check=False)
    assert done.returncode == 1
    assert b"ValueError" in done.stderr or b"JSONDecodeError" in done.stderr
