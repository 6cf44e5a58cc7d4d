"""Jobs by Spark: each partition of a table is a task.

If one of our own readers makes the rows, the workers read and process them in one process: sending rows to
the JVM and back costs more than all the work on them. Tasks report their progress by datagrams, since Spark
itself reports only whole tasks. If the network drops datagrams, only the end of a step is reported.
"""

import contextlib
import json
import pickle
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
from pyspark import RDD, TaskContext
from pyspark.sql import SparkSession

from pipeline.job import Assign, Meter, Table, Work, expected_rows
from pipeline.progress import Count, Reporter
from pipeline.sources.parquet import RemoteParquet
from pipeline.sources.spark_parquet import frame_of
from pipeline.spark import session

T = TypeVar("T")

_EVERY = 0.5  # seconds between a task's datagrams
_TOGETHER = 32 << 20  # bytes of rows in buckets that a task sends on at once
_PAUSE = 0.1  # seconds without a datagram after which no more is expected
_LONGEST = 1024  # bytes of one

_Run = Callable[[Iterator[pa.RecordBatch]], Iterator[bytes]]


class BySpark:
    """Runs jobs by Spark, whose errors it raises."""

    def __init__(self, reporter: Reporter, name: str, spark: SparkSession | None = None) -> None:
        """`name`: the name of the application in Spark."""
        self.reporter = reporter
        self.spark = session(name) if spark is None else spark

    def once(self, what: str, unit: str, expected: int | None, work: Callable[[Meter], T]) -> T:
        # A task of its own does it, so that its memory is not the driver's.
        with self.reporter.step(what, expected, unit) as count, _listening(self.spark, count) as address:

            def task(_: int) -> bytes:
                with _sender(address) as send:
                    meter = _Remote(send, address.token)
                    result = pickle.dumps(work(meter))
                    meter.send()
                return result

            (result,) = self.spark.sparkContext.parallelize([0], 1).map(task).collect()
            found: T = pickle.loads(result)
            return found

    def each(self, what: str, table: Table, work: Work[T]) -> list[T]:

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
            yield pickle.dumps(work(batches))

        with self.reporter.step(what, table.rows) as count, _listening(self.spark, count) as address:
            return [pickle.loads(result) for result in self._over(table, run, address, "").collect()]

    def shuffled(
        self, what: str, inputs: Sequence[tuple[Table, Assign]], gather: Work[T], unit: str = "znodes"
    ) -> list[T]:
        rows = expected_rows(inputs)
        buckets = max(table.buckets for table, _ in inputs)
        with self.reporter.step(what, rows, unit) as count, _listening(self.spark, count) as address:
            assigned = [
                self._over(table, _Assigner(assign), address, f"{number}-")
                for number, (table, assign) in enumerate(inputs)
            ]
            together = self.spark.sparkContext.union(assigned).map(pickle.loads)
            shared: RDD[tuple[int, bytes]] = together.partitionBy(buckets, _same)
            return shared.mapPartitions(_Gatherer(gather)).collect()

    def _over(self, table: Table, run: _Run, to: "_Address", part: str) -> "RDD[bytes]":
        """The result of `run` for each partition."""
        if isinstance(table.reader, RemoteParquet):
            return _over_frame(frame_of(self.spark, table.reader), run, to, part)
        partitions = list(table.reader.partitions())
        context = self.spark.sparkContext
        if not partitions:
            return context.emptyRDD()
        read = table.reader.read

        def task(number: int, given: Iterable[Any]) -> Iterator[bytes]:
            for partition in given:
                yield from run(_metered(read(partition), to, f"{part}{number}"))

        return context.parallelize(partitions, len(partitions)).mapPartitionsWithIndex(task)


def _over_frame(frame: Any, run: _Run, to: "_Address", part: str) -> "RDD[bytes]":
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        number = 0 if context is None else context.partitionId()
        for result in run(_metered(batches, to, f"{part}{number}")):
            yield pa.RecordBatch.from_arrays([pa.array([result], pa.binary())], names=["result"])

    found: RDD[bytes] = frame.mapInArrow(task, "result binary").rdd.map(_result)
    return found


def _result(row: Any) -> bytes:
    return bytes(row["result"])


def _same(bucket: int) -> int:
    return bucket


class _Assigner:
    """Puts rows into buckets, as bytes."""

    def __init__(self, assign: Assign) -> None:
        self._assign = assign

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
        # All rows of one bucket are sent together: a message has a header of a kilobyte.
        waiting: dict[int, list[pa.RecordBatch]] = {}
        size = 0
        for bucket, batch in self._assign(batches):
            waiting.setdefault(bucket, []).append(batch)
            size += batch.nbytes
            if size > _TOGETHER:
                yield from map(_packed, waiting.items())
                waiting, size = {}, 0
        yield from map(_packed, waiting.items())


def _packed(assigned: tuple[int, list[pa.RecordBatch]]) -> bytes:
    bucket, batches = assigned
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as stream:
        stream.write_batch(pa.concat_batches(batches))
    return pickle.dumps((bucket, sink.getvalue().to_pybytes()))


class _Gatherer:
    """Processes the one or more buckets of a task."""

    def __init__(self, gather: Work[Any]) -> None:
        self._gather = gather

    def __call__(self, given: Iterable[tuple[int, bytes]]) -> Iterator[Any]:
        def batches() -> Iterator[pa.RecordBatch]:
            for _, raw in given:
                with pa.ipc.open_stream(raw) as stream:
                    yield from stream

        yield self._gather(batches())


class _Address(NamedTuple):
    """The address to which tasks report."""

    host: str
    port: int
    token: str  # datagrams without it are not from our tasks


@contextlib.contextmanager
def _listening(spark: SparkSession, count: Count) -> Iterator[_Address]:
    """Add the reports of tasks while the body runs."""
    host = spark.conf.get("spark.driver.host") or "127.0.0.1"
    token = secrets.token_hex(16)
    family, kind, protocol, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as receiver:
        try:
            receiver.bind(address)
        except OSError:  # behind a network address translation
            receiver.bind(("", 0))
        receiver.settimeout(_PAUSE)
        ended = threading.Event()

        def listen() -> None:
            while True:
                try:
                    take(receiver.recv(_LONGEST), token, count)
                except TimeoutError:
                    if ended.is_set():  # and no datagram is left
                        return

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        try:
            yield _Address(host, receiver.getsockname()[1], token)
        finally:
            ended.set()
            listener.join()


def take(raw: bytes, token: str, count: Count) -> None:
    """Process one datagram: a task's token, part, rows and bytes. Any other datagram is ignored."""
    with contextlib.suppress(ValueError, TypeError):
        sent, part, rows, size = json.loads(raw)
        if secrets.compare_digest(str(sent), token):
            count.update(str(part), int(rows), int(size))


class _Remote:
    """Reports the progress of a task that reads no rows."""

    def __init__(self, send: Callable[[list[Any]], None], token: str) -> None:
        self._send = send
        self._token = token
        self._rows = self._size = 0
        self._due = time.monotonic() + _EVERY

    def add(self, rows: int, size: int) -> None:
        self._rows += rows
        self._size += size
        if time.monotonic() >= self._due:
            self.send()
            self._due = time.monotonic() + _EVERY

    def send(self) -> None:
        """Report what is done."""
        self._send([self._token, "", self._rows, self._size])


def _metered(batches: Iterator[pa.RecordBatch], to: _Address, part: str) -> Iterator[pa.RecordBatch]:
    """The same batches, while datagrams report them."""
    rows = size = 0
    due = time.monotonic() + _EVERY
    with _sender(to) as send:
        for batch in batches:
            rows += batch.num_rows
            size += batch.nbytes
            if time.monotonic() >= due:
                send([to.token, part, rows, size])
                due = time.monotonic() + _EVERY
            yield batch
        send([to.token, part, rows, size])


@contextlib.contextmanager
def _sender(to: _Address) -> Iterator[Callable[[list[Any]], None]]:
    with contextlib.ExitStack() as stack:
        sender: socket.socket | None = None
        with contextlib.suppress(OSError):
            family, kind, protocol, _, address = socket.getaddrinfo(to.host, to.port, type=socket.SOCK_DGRAM)[
                0
            ]
            sender = stack.enter_context(socket.socket(family, kind, protocol))
            sender.connect(address)

        def send(facts: list[Any]) -> None:
            if sender is not None:
                with contextlib.suppress(OSError):
                    sender.send(json.dumps(facts).encode())

        yield send
