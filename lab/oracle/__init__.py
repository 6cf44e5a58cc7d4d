"""A ZooKeeper client that shares no code with `codec`, so that it cannot share its mistakes.

The tests that compare zketcd with real ZooKeeper use it. Layouts follow ZooKeeper 3.9's zookeeper.jute.
"""
