"""Tests of serve/."""
