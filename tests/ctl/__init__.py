"""Tests of ctl/."""
