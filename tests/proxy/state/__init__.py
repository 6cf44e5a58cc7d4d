"""Tests of proxy/state/, of what tests/compat and the simulation do not cover."""
