"""What `python -m pipeline` does, a module a command: add_arguments(parser), run(arguments) -> exit code."""
