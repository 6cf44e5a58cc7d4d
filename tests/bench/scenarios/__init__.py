"""Tests of bench/scenarios/."""
