"""The `environment` command: ZooKeeper's Environment.list, as far as it has a meaning without a JVM."""

import os
import platform
import socket

from proxy.version import BUILT, RELEASE

VERSION = f"{RELEASE}, built on {BUILT}"
_FOLDER = os.getcwd()  # the process never changes it


def environment() -> dict[str, str]:
    """Names and values, in ZooKeeper's order."""
    page = os.sysconf("SC_PAGE_SIZE")
    free, total = os.sysconf("SC_AVPHYS_PAGES") * page >> 20, os.sysconf("SC_PHYS_PAGES") * page >> 20
    return {
        "zookeeper.version": VERSION,
        "host.name": socket.gethostname(),
        "python.version": platform.python_version(),
        "os.name": platform.system(),
        "os.arch": platform.machine(),
        "os.version": platform.release(),
        "user.name": os.environ.get("USER", str(os.getuid())),
        "user.home": os.environ.get("HOME", ""),
        "user.dir": _FOLDER,
        "os.memory.free": f"{free}MB",
        "os.memory.max": f"{total}MB",
        "os.memory.total": f"{total}MB",
    }
