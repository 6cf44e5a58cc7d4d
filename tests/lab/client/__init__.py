"""Tests of the ZooKeeper client on codec."""
