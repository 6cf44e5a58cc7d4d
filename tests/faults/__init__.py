"""Tests of what goes wrong: servers stopped, killed, restored, full, cut off; and of what it must cost."""
