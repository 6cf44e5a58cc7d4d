"""Wrong usage is reported in one line; --help shows what a command line should be."""

import argparse
import os
from pathlib import Path
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """argparse's parser, and base of its subcommands' parsers, without the whole usage before an error."""

    def error(self, message: str) -> NoReturn:
        """Print the error as one line on standard error; exit with 2."""
        self.exit(2, f"{self.prog}: error: {' '.join(message.split())} (see --help)\n")


def output_file(value: str) -> Path:
    """An argparse type: a file to write when the work is done. What cannot be written is refused before."""
    path = Path(value)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{value!r} is a folder")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{value!r}: there is no folder {path.parent}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{value!r} cannot be written")
    return path


def output_folder(value: str) -> Path:
    """An argparse type: a folder to write into, which need not be there yet."""
    path = Path(value)
    above = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    if not above.is_dir():
        raise argparse.ArgumentTypeError(f"{value!r}: {above} is not a folder")
    if not os.access(above, os.W_OK | os.X_OK):
        raise argparse.ArgumentTypeError(f"{value!r}: {above} cannot be written to")
    return path
