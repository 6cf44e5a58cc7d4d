"""Tests of codec/: one file per module, and the sessions recorded from a real ZooKeeper."""
