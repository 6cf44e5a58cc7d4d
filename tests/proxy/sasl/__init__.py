"""Tests of proxy.sasl."""
