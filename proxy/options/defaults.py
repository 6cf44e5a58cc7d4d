"""Defaults of options that are also those of the log, where it runs without options."""

LEASE = 5  # seconds
MAX_STALENESS = 10  # seconds
STANDBY_WITHIN = 0  # seconds
ETCD_RESERVE = 10  # percent
SNAPSHOT_BYTES = 64 << 20
SNAPSHOT_REQUESTS = 200_000
