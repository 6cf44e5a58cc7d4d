"""Commands of `python -m pipeline`, one module each: add_arguments(parser), run(arguments) -> exit code."""
