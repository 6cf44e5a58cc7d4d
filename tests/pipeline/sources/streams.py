"""Streaming queries, and a tree in a real etcd, written by proxies that are nothing but names."""

import asyncio
from collections.abc import Awaitable, Callable

from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from pipeline.etcd.options import Connection
from tests.proxy.log.trees import Tree

# Spark gives a source's Python process ten seconds to start, which a busy machine may not manage.
_TOO_SLOW = "failed to connect back"
_TRIES = 10


class World:
    """A tree, and its proxy `a`, for tests that do not await."""

    def __init__(self, connection: Connection) -> None:
        self.options = {**connection.options(), "table": "traffic"}
        self._connection = connection
        self._numbers: dict[str, int] = {}
        self._revisions: dict[str, int] = {}
        self._do(_begin)

    def create(self, *paths: str) -> None:
        """Append an entry that creates nodes."""
        self._do(lambda tree: tree.create("a", *paths))

    def snapshot(self) -> None:
        """Write a snapshot, and truncate the log behind the one before."""
        self._do(lambda tree: tree.snapshot("a"))

    def _do(self, work: Callable[[Tree], Awaitable[object]]) -> None:
        async def run() -> None:
            async with self._connection.client() as etcd:
                tree = Tree(etcd, self._connection.prefix)
                tree.numbers, tree.revisions = self._numbers, self._revisions
                await work(tree)

        asyncio.run(run())


async def _begin(tree: Tree) -> None:
    await tree.make()
    await tree.come("a")


def run_to_end(start: Callable[[], StreamingQuery]) -> None:
    """Run a query until there is nothing more to read. Raises what ends it, unless that is Spark's hurry."""
    for _ in range(_TRIES):
        try:
            start().awaitTermination()
        except PySparkException as error:
            if _TOO_SLOW not in str(error):
                raise
        else:
            return
    raise TimeoutError(f"Python processes of Spark did not start within its ten seconds, {_TRIES} times")
