"""Clients that other people wrote, on zketcd: kazoo's test suite and recipes, zkCli, ClickHouse.

Each test runs against real ZooKeeper as well (ZKETCD_TEST_SERVER=zookeeper): what fails there too is the
test's fault or the client's.
"""
