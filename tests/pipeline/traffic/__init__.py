"""Traffic: rows, views, reports."""
