"""Tells how far a long command has come, on stderr, every few seconds."""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

from pyspark.sql import SparkSession

_INTERVAL = 3.0  # seconds


def tell(text: str) -> None:
    """One line of progress."""
    print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def told(spark: SparkSession, what: str) -> Iterator[None]:
    """While the body runs: how many of Spark's tasks are done; afterwards the seconds it took."""
    started = time.monotonic()
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(spark, what, ended), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
    tell(f"{what}: done in {time.monotonic() - started:.1f} s")


def _watch(spark: SparkSession, what: str, ended: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    while not ended.wait(_INTERVAL):
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
        total = sum(stage.numTasks for stage in stages if stage is not None)
        if total:
            tell(f"{what}: {done} of {total} tasks done")
