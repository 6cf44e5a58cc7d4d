"""Tests of `pipeline.sources`, on a real Spark."""
