"""Commands of `zketcd`, one module each: run(arguments) -> exit code."""
