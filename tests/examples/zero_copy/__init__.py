"""Tests of examples/zero_copy."""
