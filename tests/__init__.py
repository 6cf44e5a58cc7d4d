"""Tests: the folders mirror the source tree."""

import os
import sys

# Else each process of pytest compiles all tests, and each server that a test starts all its modules.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
