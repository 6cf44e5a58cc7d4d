"""Tests of proxy.traces."""
