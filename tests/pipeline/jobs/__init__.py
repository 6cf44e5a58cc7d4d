"""Tests of `pipeline.jobs`: the commands, on real servers."""
