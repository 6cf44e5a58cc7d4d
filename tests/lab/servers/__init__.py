"""Tests of the starters of real servers."""
