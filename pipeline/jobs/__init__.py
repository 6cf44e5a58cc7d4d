"""Commands of `python -m pipeline`, one module each: run(arguments) -> exit code."""
