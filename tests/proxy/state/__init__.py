"""Tests of proxy/state/, a file for each module."""
