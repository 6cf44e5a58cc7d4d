"""Commands that act on the tree as a client of a running proxy, under the caller's identities."""
