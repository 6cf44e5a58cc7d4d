"""Tests of proxy/log/."""
