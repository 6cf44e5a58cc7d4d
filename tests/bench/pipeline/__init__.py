"""Tests of bench/pipeline."""
