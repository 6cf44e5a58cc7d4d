"""`python -m bench.pipeline.reading DIRECTORY`: read a snapshot by Spark, tell the seconds.

Spark's own start is left out: it is the same for every size, and a cluster's is not ours.
"""

import sys
import time
from collections.abc import Sequence

from pipeline.spark import session


def main(arguments: Sequence[str] | None = None) -> int:
    """Read one directory, twice: a worker's imports and the JVM's warming up are over the second time."""
    (folder,) = sys.argv[1:] if arguments is None else arguments
    spark = session("zketcd bench")
    for _ in range(2):
        started = time.monotonic()
        # Batches come as they are and no cell is looked at, as SnapshotFormatter's output is discarded.
        spark.read.format("zookeeper").load(folder).write.format("noop").mode("overwrite").save()
        print(f"{time.monotonic() - started:.3f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
