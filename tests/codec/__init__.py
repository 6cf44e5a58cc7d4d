"""Tests of codec/: one file per module."""
