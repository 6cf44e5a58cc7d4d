"""Tests of zketcd/."""
