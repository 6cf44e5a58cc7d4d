"""Tests of proxy/support/."""
