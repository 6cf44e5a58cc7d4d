"""Tests of `proxy`."""
