"""Tests of schema/, a file for each module."""
