"""Tests of proxy/check/."""
