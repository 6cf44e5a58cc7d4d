"""What a run costs the servers: CPU seconds and memory from /proc, requests and puts from etcd's metrics."""

import os
import time
import urllib.request
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_CPUCLOCK_SCHED = 2  # linux/posix-timers.h: CPU time as the scheduler counts it, in nanoseconds

# Sample name in /metrics -> our name. etcd 3.4 and 3.5 both have these.
COUNTERS = {
    'grpc_server_handled_total{grpc_code="OK",grpc_method="Txn",': "txn",
    'grpc_server_handled_total{grpc_code="OK",grpc_method="Range",': "range",
    "etcd_mvcc_put_total": "put",
    "etcd_mvcc_delete_total": "delete",
    "etcd_disk_wal_fsync_duration_seconds_count": "fsync",
    "etcd_disk_wal_write_bytes_total": "wal_bytes",
}


def process_tree(*pids: int) -> list[int]:
    """The processes and their descendants that live now."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit() and (fields := _stat_fields(int(entry.name))):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    tree = dict.fromkeys(pids)
    waiting = list(tree)
    while waiting:
        found = [child for child in children.get(waiting.pop(), ()) if child not in tree]
        tree.update(dict.fromkeys(found))
        waiting += found
    return list(tree)


def name_of(pid: int) -> str:
    """The program's name; "" if the process is gone."""
    try:
        return (PROC / str(pid) / "comm").read_text().rstrip("\n")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def cpu_seconds(pids: Iterable[int]) -> float:
    """User and system time of the processes so far, ended threads included; 0 of those that are gone."""
    seconds = 0.0
    for pid in pids:
        # clock_getcpuclockid(3), which Python lacks. /proc/PID/stat counts in ticks of 10 ms.
        with suppress(OSError):
            seconds += time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED)
    return seconds


def busy_seconds() -> float:
    """Time that all cores together have spent working for anybody so far."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(
        int, (PROC / "stat").read_text().split("\n", 1)[0].split()[1:9]
    )
    return (user + nice + system + irq + softirq + steal) / CLOCK_TICKS


def resident_bytes(pids: Iterable[int]) -> int:
    """Resident memory of the processes, shared pages counted in each."""
    pages = 0
    for pid in pids:
        try:
            pages += int((PROC / str(pid) / "statm").read_text().split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return pages * PAGE_BYTES


def etcd_counters(url: str) -> dict[str, float]:
    """etcd's counters at its client URL; raises OSError when it can't be asked."""
    with urllib.request.urlopen(url + "/metrics", timeout=10) as response:
        return parse_metrics(response.read().decode())


def parse_metrics(page: str) -> dict[str, float]:
    """The counters of a Prometheus text page that we know, under our names; those missing are 0."""
    found = dict.fromkeys(COUNTERS.values(), 0.0)
    for line in page.splitlines():
        for sample, name in COUNTERS.items():
            if line.startswith(sample) and (sample.endswith(",") or line[len(sample)] in " {"):
                found[name] += float(line.rpartition(" ")[2])
    return found


def difference(after: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    """after - before, by name."""
    return {name: value - before[name] for name, value in after.items()}


def _stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; empty if the process is gone."""
    try:
        # The name before the last ")" may itself hold spaces and parentheses.
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
