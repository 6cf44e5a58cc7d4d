"""Two ClickHouse servers insert while their tree moves to another etcd: each block is there once."""

from contextlib import closing

import pytest

from lab.servers import EtcdServer, ZketcdServer
from lab.servers.clickhouse import replicas_at
from lab.servers.link import Link
from tests.clients.clickhouse_tables import Writer, check, create_table, wait_for_progress, writing
from tests.pipeline.follow.running import PipelineCommand
from zketcd.__main__ import main

pytestmark = pytest.mark.real
COPY = "/copy"


def served(etcd: EtcdServer, prefix: str) -> ZketcdServer:
    return ZketcdServer(etcd.endpoint, prefix=prefix, max_session_timeout=60_000, max_client_connections=0)


def test_inserts_go_on_through_a_move(
    etcd_server: EtcdServer, own_etcd_server: EtcdServer, etcd_prefix: str
) -> None:
    source = f"etcd://{etcd_server.address}{etcd_prefix}"
    to = ["--etcd", own_etcd_server.endpoint, "--prefix", COPY]
    new = served(own_etcd_server, COPY)
    with served(etcd_server, etcd_prefix) as old, closing(new), Link() as balancer:
        balancer.lead_to(old.port, new.port)
        with replicas_at(balancer.port, balancer.port) as replicas:
            create_table(replicas[0], "t")
            writers = [Writer(number, replica) for number, replica in enumerate(replicas)]
            with PipelineCommand("follow", source, *to) as following, writing(writers):
                following.wait_until_level()
                new.launch()  # waits for the move
                wait_for_progress(writers)
                assert main(["follow", source, *to, "--finish"]) == 0
                assert following.wait(60) == 0
                assert old.wait(60) == 1
                new.wait_until_serving()
                for replica in replicas:  # else ClickHouse 18.16 tries every 10 s
                    replica.query("SYSTEM RESTART REPLICA t")
                wait_for_progress(writers)
            print(f"inserts waited for {max(writer.longest_wait for writer in writers):.1f} s")
            check(writers, replicas)
