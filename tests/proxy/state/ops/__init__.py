"""Tests of proxy/state/ops/, a file for each operation."""
