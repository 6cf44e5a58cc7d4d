"""Free TCP ports on the loopback interface."""

import random
import socket

# Below Linux's default range of ephemeral ports (32768 and up): the kernel never hands one of these to an
# outgoing connection between our choice and the server's bind.
_FIRST, _LAST = 20000, 32000
_TRIES = 200
_random = random.SystemRandom()
_given: set[int] = set()


def free_port() -> int:
    """Return a port on 127.0.0.1 that is free now and that this process has not been given before.

    Raises OSError if no port of the range is free.
    """
    for _ in range(_TRIES):
        port = _random.randrange(_FIRST, _LAST)
        if port in _given:
            continue
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            # As the servers do: a port whose last connections are in TIME_WAIT is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given.add(port)
        return port
    raise OSError(f"no free port on 127.0.0.1 between {_FIRST} and {_LAST} after {_TRIES} tries")
