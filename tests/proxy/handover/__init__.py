"""Tests of proxy.handover."""
