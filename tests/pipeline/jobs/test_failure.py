"""What a user is told is what was raised, without Spark's words around it."""

import pytest
from pyspark.errors import PySparkException

from pipeline.jobs.failure import reason_of

_TRACE = (
    '[PYTHON_DATA_SOURCE_ERROR] Failed: Traceback (most recent call last):\n  File "x.py", line 1, in f\n'
)


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        ("ValueError: /out holds log.1 already", "/out holds log.1 already"),
        ("FileNotFoundError: [Errno 2] No such file: 'x'", "[Errno 2] No such file: 'x'"),
        ("pyarrow.lib.ArrowInvalid: no such column", "no such column"),
        ("pipeline.formats.errors.BadFile: x, byte 5: is cut", "x, byte 5: is cut"),
    ],
)
def test_an_error_of_a_worker(raised: str, told: str) -> None:
    assert reason_of(PySparkException(f"{_TRACE}{raised}\n\n\tat org.apache.spark.X.y(X.scala:5)")) == told


def test_spark_s_own_words() -> None:
    assert reason_of(PySparkException("[PATH_NOT_FOUND] no path\nmore")) == "[PATH_NOT_FOUND] no path"
