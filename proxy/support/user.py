"""The user that this process runs as."""

import getpass
import os


def user_name() -> str:
    """The user's name, or its number: in a container /etc/passwd often does not have the user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # OSError since Python 3.13
        return str(os.getuid())
