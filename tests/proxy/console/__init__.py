"""Tests of proxy/console/."""
