"""What a reader of any result must know of the machine and the moment it comes from."""

import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from lab.servers import zookeeper_jar_version
from lab.servers.etcd import etcd_version


def machine() -> dict[str, object]:
    """The time, cores, and how busy the machine is."""
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load average at start": os.getloadavg()[0],
    }


def here_and_now() -> dict[str, object]:
    """The machine, and the versions of the servers that the harness starts. Raises BinaryMissing."""
    return {**machine(), "zookeeper": zookeeper_jar_version(), "etcd": etcd_version()}


def described(environment: Mapping[str, Any]) -> str:
    """What stands below a table: where its figures come from. `environment` is what `here_and_now` gave."""
    return (
        f"{environment['cores']} cores, ZooKeeper {environment['zookeeper']}, etcd {environment['etcd']}, "
        f"Python {environment['python']}, {str(environment['time'])[:10]}"
    )
