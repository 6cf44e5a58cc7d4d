"""What becomes of ephemerals and their sessions when a tree moves."""

from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline.jobs.census import Census
from pipeline.table import ZNODES, SessionRow
from schema.paths import parent_of


class Kept(NamedTuple):
    """What becomes of ephemerals and their sessions."""

    sessions: tuple[SessionRow, ...]  # that come over
    dropped_paths: tuple[str, ...]  # ephemerals of all others
    dropped_owners: tuple[int, ...]


def kept_of(counted: Census, come_over: Sequence[SessionRow]) -> Kept:
    """Divide the ephemerals by whether their session comes over."""
    ids = {row.id for row in come_over}
    dropped = [ephemeral for ephemeral in counted.ephemerals if ephemeral.session_id not in ids]
    return Kept(
        tuple(come_over),
        tuple(ephemeral.path for ephemeral in dropped),
        tuple(sorted({ephemeral.session_id for ephemeral in dropped})),
    )


def without_ephemerals(spark: SparkSession, znodes: DataFrame, kept: Kept, zxid: int) -> DataFrame:
    """The tree as it is once the sessions that do not come over have ended, in one transaction `zxid`.

    As DataTree.deleteNode leaves it: the parents' pzxid moves, their count of children ever created does not.
    """
    if not kept.dropped_paths:
        return znodes
    stays = ~F.col("owner").isin(list(kept.dropped_owners))
    parents = sorted({parent_of(path) for path in kept.dropped_paths})
    marked = spark.createDataFrame([(path, zxid) for path in parents], "path string, ended long")
    joined = znodes.where(stays).join(F.broadcast(marked), "path", "left")
    moved = joined.withColumn("pzxid", F.coalesce(F.greatest("ended", "pzxid"), "pzxid"))
    return moved.select(ZNODES.fieldNames())
