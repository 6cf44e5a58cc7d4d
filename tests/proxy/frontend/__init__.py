"""Tests of proxy.frontend."""
