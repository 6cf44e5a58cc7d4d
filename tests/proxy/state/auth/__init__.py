"""Tests of proxy/ops/, a file for each operation."""
