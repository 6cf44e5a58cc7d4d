"""Wrong usage is reported in one line; --help shows what a command line should be."""

import argparse
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """argparse's parser, and base of its subcommands' parsers, without the whole usage before an error."""

    def error(self, message: str) -> NoReturn:
        """Print the error as one line on standard error; exit with 2."""
        self.exit(2, f"{self.prog}: error: {' '.join(message.split())} (see --help)\n")
