"""Stand-ins for servers, checked against the real thing by the same tests."""
