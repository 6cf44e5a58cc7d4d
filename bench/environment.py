"""What a reader of any result must know of the machine and the moment it comes from."""

import os
import platform
from datetime import UTC, datetime

from lab.servers import zookeeper_jar_version


def machine() -> dict[str, object]:
    """The time, cores, and how busy the machine is."""
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load average at start": os.getloadavg()[0],
    }


def here_and_now() -> dict[str, object]:
    """The machine, and the version of the ZooKeeper that the harness starts. Raises BinaryMissing."""
    return {**machine(), "zookeeper": zookeeper_jar_version()}
