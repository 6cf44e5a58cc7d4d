"""Where costs are read from: /proc and etcd's metrics."""

import os
import subprocess
import sys
import time

from bench.costs import cpu_seconds, parse_metrics, process_tree, resident_bytes

PAGE = """# HELP grpc_server_handled_total Total number of RPCs completed on the server.
grpc_server_handled_total{grpc_code="OK",grpc_method="Txn",grpc_type="unary"} 12
grpc_server_handled_total{grpc_code="Aborted",grpc_method="Txn",grpc_service="etcdserverpb.KV"} 500
grpc_server_handled_total{grpc_code="OK",grpc_method="Range",grpc_service="etcdserverpb.KV"} 3
etcd_mvcc_put_total 1.5e+06
etcd_mvcc_put_total_other 9
etcd_disk_wal_fsync_duration_seconds_count 8
etcd_disk_wal_write_bytes_total 4096
"""


def test_parse_metrics() -> None:
    assert parse_metrics(PAGE) == {
        "txn": 12, "range": 3, "put": 1.5e6, "delete": 0, "fsync": 8, "wal_bytes": 4096,
    }  # fmt: skip


def test_costs_of_processes() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, text=True)
    try:
        tree = process_tree(os.getpid())
        assert tree[0] == os.getpid()
        assert child.pid in tree
        assert resident_bytes(tree) > resident_bytes([os.getpid()]) > 1_000_000
        before = cpu_seconds([os.getpid()])
        deadline = time.process_time() + 0.1
        while time.process_time() < deadline:
            pass
        assert cpu_seconds([os.getpid()]) >= before + 0.05
    finally:
        child.communicate("\n")
    assert child.pid not in process_tree(os.getpid())
    assert cpu_seconds([child.pid]) == 0
    assert resident_bytes([child.pid]) == 0
