"""Tests of what tests, proof, bench and examples share."""
