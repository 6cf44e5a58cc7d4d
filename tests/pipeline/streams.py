"""Streaming queries in tests."""

from collections.abc import Callable

from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

# Spark gives a source's Python process ten seconds to start, which a busy machine may not manage.
_TOO_SLOW = "failed to connect back"
_TRIES = 10


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
