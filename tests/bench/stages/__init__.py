"""Tests of bench/stages/."""
