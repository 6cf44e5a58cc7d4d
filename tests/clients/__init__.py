"""Clients that other people wrote, on zketcd: kazoo, zkCli, Curator, the C client, Spark, ClickHouse.

Each test runs against real ZooKeeper as well (ZKETCD_TEST_SERVER=zookeeper): what fails there too is the
test's fault or the client's.
"""
