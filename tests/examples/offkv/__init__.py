"""Tests of examples/offkv/."""
