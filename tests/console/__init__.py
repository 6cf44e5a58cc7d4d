"""Tests of console/."""
