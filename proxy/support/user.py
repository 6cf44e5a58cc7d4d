"""The user that this process runs as, and its host."""

import getpass
import os
import socket


def user_name() -> str:
    """The user's name, or its number: in a container /etc/passwd often does not have the user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # OSError since Python 3.13
        return str(os.getuid())


def host_name() -> str:
    """The name of this host, as a text for any file and terminal: the system takes any bytes as a name."""
    name = socket.gethostname()
    return name if name.isprintable() else ascii(name)[1:-1]
