"""What `python -m pipeline` does, a module a command: SUMMARY, add_arguments(parser), run(arguments)."""
