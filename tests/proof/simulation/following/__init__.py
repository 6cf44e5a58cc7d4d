"""Tests of the simulation of the whole system."""
