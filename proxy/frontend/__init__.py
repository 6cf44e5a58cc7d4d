"""One client's side of the proxy: listener, handshake, connection, order of its requests, sessions."""
