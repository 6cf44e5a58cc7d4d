"""The release of zketcd that this is. It is declared here and nowhere else."""

VERSION = "0.1.0"
BUILT = "2026-11-21 00:00 UTC"
"""The day of the release, as ZooKeeper's own version has it."""
RELEASE = f"3.9.3-zketcd-{VERSION}"
"""As clients and operators see it: with the version of ZooKeeper whose protocol it speaks."""
