"""Tests of `pipeline.etcd`, on the fake etcd."""
