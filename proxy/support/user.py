"""The user that this process runs as."""

import getpass
import os


def user_name() -> str:
    """Its name, or its number if it has none: in a container it is often in no file of users."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # OSError since Python 3.13
        return str(os.getuid())
