"""Programs that set the repository up, build what is installed, and generate or measure its files."""
