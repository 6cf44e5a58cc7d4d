"""How to add a library that is not always installed: it depends on how zketcd itself was installed."""

import sys
from pathlib import Path
from typing import NamedTuple


class Places(NamedTuple):
    """Where an installed zketcd has its parts."""

    environment: str = "/opt/zketcd"  # of the Debian package, and of the image
    locks: Path = Path("/usr/share/zketcd")  # of the Debian package
    checkout: Path = Path(__file__).resolve().parents[2]


PLACES = Places()

#: What an image can be built with.
OF_IMAGE = ("archive", "grpcio", "otel", "pipeline-small")


def how_to_add(name: str, places: Places = PLACES) -> str:
    """The command that installs what requirements/NAME.txt lists, in words that end a sentence.

    There is none for the single-file archive: docs/install.md says what to do.
    """
    lock = places.locks / f"{name}.txt"
    if sys.prefix == places.environment and lock.exists():
        pip = f"python3 -m pip --python {places.environment}/bin/python3 install --require-hashes"
        return f"`{pip} -r {lock}` installs it"
    if sys.prefix == places.environment and name in OF_IMAGE:
        return f'an image that is built with `--build-arg LOCKS="runtime {name}"` has it'
    if (places.checkout / "requirements" / f"{name}.txt").exists():
        return f"`make setup-{name}` installs it"
    return "docs/install.md says how to install it"
