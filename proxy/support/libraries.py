"""How to add a library that is not always installed: it depends on how zketcd itself was installed."""

import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]  # of a checkout
_PREFIX = "/opt/zketcd"  # where the Debian package has its environment, and the image
_LOCKS = "/usr/share/zketcd/{}.txt"  # of the Debian package

#: What an image can be built with.
OF_IMAGE = ("archive", "grpcio", "otel", "pipeline-small")


def how_to_add(name: str) -> str:
    """The command that installs what requirements/NAME.txt lists, in words that end a sentence.

    There is none for the single-file archive: docs/install.md says what to do.
    """
    lock = _LOCKS.format(name)
    if sys.prefix == _PREFIX and Path(lock).exists():
        pip = f"python3 -m pip --python {_PREFIX}/bin/python3 install --require-hashes"
        return f"`{pip} -r {lock}` installs it"
    if sys.prefix == _PREFIX and name in OF_IMAGE:
        return f'an image that is built with `--build-arg LOCKS="runtime {name}"` has it'
    if (_ROOT / "requirements" / f"{name}.txt").exists():
        return f"`make setup-{name}` installs it"
    return "docs/install.md says how to install it"
