"""Tests of zketcd/online."""
