"""Tests of examples/database_replicated/."""
