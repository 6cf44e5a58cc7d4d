"""Tests of proxy/state/ops/, of what tests/compat and the simulation do not cover."""
