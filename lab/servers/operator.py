"""What an operator does to etcd and to a tree: etcdctl, commands of zketcd, HTTP, ended leases."""

import json
import os
import subprocess
import urllib.error
import urllib.request
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any

from lab.servers import EtcdServer
from lab.servers.process import find_program
from zketcd.__main__ import main


def etcdctl(etcd: EtcdServer | None, *arguments: str, given: str = "") -> str:
    """Run etcdctl with `given` as its input; what it prints. Raises RuntimeError with its words."""
    command = [find_program("etcdctl", "make test installs it where it may use apt")]
    if etcd is not None:
        command.append(f"--endpoints={etcd.address}")
    result = subprocess.run(
        [*command, *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "ETCDCTL_API": "3"},
    )
    if result.returncode:
        raise RuntimeError(f"etcdctl {' '.join(arguments)}: {result.stderr}")
    return result.stdout


def ctl(etcd: EtcdServer, name: str, *arguments: str, prefix: str = "/zketcd") -> Any:
    """Run a command of zketcd and return the JSON that it prints. Raises RuntimeError with its words.

    In this process: the imports of another would take half a second of CPU.
    """
    output, errors = StringIO(), StringIO()
    with redirect_stdout(output), redirect_stderr(errors):
        status = main([name, "--etcd", etcd.endpoint, "--prefix", prefix, "--json", *arguments])
    if status:
        raise RuntimeError(f"{name} {' '.join(arguments)}: {errors.getvalue()}")
    return json.loads(output.getvalue())


def keys_of(etcd: EtcdServer, start: str) -> list[str]:
    """The keys with a prefix, from etcd itself."""
    return etcdctl(etcd, "get", "--prefix", "--keys-only", start).split()


def count_keys(etcd: EtcdServer, start: str) -> int:
    """The number of keys with a prefix, from etcd itself."""
    return len(keys_of(etcd, start))


def revision_of(etcd: EtcdServer) -> int:
    """etcd's revision now."""
    (status,) = json.loads(etcdctl(etcd, "endpoint", "status", "--write-out=json"))
    return int(status["Status"]["header"]["revision"])


def compact(etcd: EtcdServer) -> None:
    """Make etcd forget all that was before now."""
    try:
        etcdctl(etcd, "--command-timeout=50s", "compact", "--physical", str(revision_of(etcd)))
    except RuntimeError as error:
        # By another operator meanwhile, or by the first of etcdctl's own tries.
        if "required revision has been compacted" not in str(error):
            raise


def ask(port: int, path: str) -> tuple[int, Any]:
    """What the admin HTTP server says: (status, object); (0, None) if no process answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)
    except OSError:
        return 0, None


def metric(port: int, name: str) -> float:
    """A proxy's metric without labels, from its admin HTTP server. Raises OSError if it does not answer."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    (value,) = [line.split()[1] for line in text.splitlines() if line.startswith(f"{name} ")]
    return float(value)
