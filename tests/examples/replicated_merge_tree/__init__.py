"""Tests of examples/replicated_merge_tree."""
