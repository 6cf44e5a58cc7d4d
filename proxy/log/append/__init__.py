"""Appending to the log."""
