"""Tests of bench/plots/."""
