"""Following the log."""
