"""Tests of proof.torture."""
