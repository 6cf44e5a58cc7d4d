"""Tests of proxy/ctl/."""
