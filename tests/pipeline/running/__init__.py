"""Tests of pipeline/running."""
