"""Tests of `pipeline.live`, on a real ZooKeeper."""
