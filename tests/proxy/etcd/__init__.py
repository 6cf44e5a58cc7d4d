"""Tests of `proxy.etcd`, on a real etcd where that is the question."""
