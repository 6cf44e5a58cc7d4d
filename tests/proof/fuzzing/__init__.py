"""Tests of proof.fuzzing."""
