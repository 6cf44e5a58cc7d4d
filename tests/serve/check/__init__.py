"""Tests of serve/check/."""
