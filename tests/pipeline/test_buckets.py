"""Rows are assigned by key and gathered again, from memory and from files."""

from itertools import chain
from pathlib import Path

import pyarrow as pa
import pytest

from pipeline.buckets import Buckets
from pipeline.etcd.paths import by_bucket
from tests.pipeline.etcd.rows import batches, row

PATHS = ["/", *(f"/{name}" for name in range(500)), *(f"/5/{name}" for name in range(500))]


def paths_of(given: list[pa.RecordBatch]) -> list[str]:
    return [path for batch in given for path in batch.column("path").to_pylist()]


def test_equal_keys_meet_in_one_bucket() -> None:
    found: dict[int, list[pa.RecordBatch]] = {}
    for size in (7, 100):
        for batch in batches([row(path) for path in PATHS], size):
            for number, part in by_bucket(batch, "path", 8):
                found.setdefault(number, []).append(part)
    assert set(found) == set(range(8))
    seen = [sorted(paths_of(parts)) for parts in found.values()]
    assert sorted(chain.from_iterable(seen)) == sorted(PATHS * 2)
    assert all(len(paths) == 2 * len(set(paths)) for paths in seen)


@pytest.mark.parametrize("most", [1, 50_000, 1 << 30])
def test_what_does_not_fit_into_memory_goes_to_files(tmp_path: Path, most: int) -> None:
    with Buckets(most, str(tmp_path)) as buckets:
        for batch in batches([row(path) for path in PATHS], 100):
            buckets.add(by_bucket(batch, "path", 4))
        assert bool(list(tmp_path.rglob("*-0"))) == (most < 1 << 30)
        gathered = [paths_of(list(part)) for part in buckets]
    assert len(gathered) == 4
    assert sorted(chain.from_iterable(gathered)) == sorted(PATHS)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_in_no_bucket() -> None:
    with Buckets() as buckets:
        buckets.add(by_bucket(next(batches([row("/")])).slice(0, 0), "path", 4))
        assert list(buckets) == []
