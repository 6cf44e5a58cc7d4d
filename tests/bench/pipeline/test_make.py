"""A made tree, written by the sink, is what the pipeline reads back, log and all."""

from pathlib import Path

import pytest

from bench.pipeline import make, tree
from pipeline.batches import fixed_row
from schema.paths import CONFIG
from tests.pipeline.trees import digest_of, read

NODES = 2050


def test_a_made_tree_reads_back(tmp_path: Path) -> None:
    assert make.main([str(NODES), str(tmp_path), "--no-spark"]) == 0
    found, rows = read(tmp_path)
    made = [*tree.trunk(NODES), *tree.table(0), *tree.table(1)]
    assert sorted(rows) == sorted(fixed_row(CONFIG) if row.path == CONFIG else row for row in made)
    assert found.sessions == tree.sessions()
    assert found.digest == digest_of(rows)
    make.write_log(NODES, 5, str(tmp_path))
    found, rows = read(tmp_path)
    assert found.transactions == 5
    assert len(rows) == NODES + 15
    assert sorted(path for path in map(str, tmp_path.glob("version-2/log.*")))


@pytest.mark.parametrize("inserts", [0, 3])
def test_no_log_where_nothing_is_inserted(inserts: int, tmp_path: Path) -> None:
    make.write_log(NODES if not inserts else 100, inserts, str(tmp_path))
    assert not list(tmp_path.iterdir())
