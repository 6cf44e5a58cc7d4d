"""The replicated log in etcd: append entries, follow and apply them; snapshots, start, truncation."""
