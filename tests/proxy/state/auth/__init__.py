"""Tests of proxy/state/auth/."""
