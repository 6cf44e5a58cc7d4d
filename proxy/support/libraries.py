"""How to add a library that is not always installed: it depends on how zketcd itself was installed."""

import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]  # of a checkout
_DEBIAN = "/opt/zketcd"  # where the Debian package has its environment


def how_to_add(name: str) -> str:
    """The command that installs what requirements/NAME.txt lists, in words that end a sentence.

    There is none for the single-file archive: docs/install.md says what to do.
    """
    if sys.prefix == _DEBIAN:
        pip = f"python3 -m pip --python {_DEBIAN}/bin/python3 install --require-hashes"
        return f"`{pip} -r /usr/share/zketcd/{name}.txt` installs it"
    if (_ROOT / "requirements" / f"{name}.txt").exists():
        return f"`make setup-{name}` installs it"
    return "docs/install.md says how to install it"
