"""Tests. The folders mirror the source tree; CONTRIBUTING.md names those that do not."""
