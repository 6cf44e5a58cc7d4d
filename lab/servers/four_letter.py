"""ZooKeeper's four-letter words, as `nc` would send them."""

import socket


def four_letter_word(port: int, word: str, timeout: float = 10.0) -> str:
    """Send `word` to 127.0.0.1:`port` and return all that comes until the server closes.

    `timeout` is in seconds. Raises OSError (TimeoutError among them) if none listens or the end does not
    come.
    """
    with socket.create_connection(("127.0.0.1", port), timeout) as connection:
        connection.sendall(word.encode("ascii"))
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts).decode()
