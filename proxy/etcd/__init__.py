"""etcd as zketcd uses it: `model` says what, `client` does it over gRPC, `embedded` runs a server."""
