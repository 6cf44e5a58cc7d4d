"""Hours of load: a run and the next one, and what is said of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.hours import by_hour, draw, lost, main


def sample(seconds: float, piece: int, lost_sessions: int, **figures: float) -> dict[str, Any]:
    return {"seconds": seconds, "piece": piece, "lost sessions": lost_sessions, **figures}


SAMPLES = [
    sample(60, 1, 0, **{"insert p50": 2.0}),
    sample(120, 1, 1, **{"insert p50": 4.0}),
    sample(7300, 2, 0, **{"insert p50": 5.0, "znodes": 7}),
    sample(7360, 2, 2),
]


def test_an_hour_is_a_row_and_the_sessions_of_all_pieces_count() -> None:
    table = by_hour(SAMPLES)
    column = table.head.index("insert p50")
    assert [(row[0], row[column]) for row in table.rows] == [(1, 3.0), (3, 5.0)]
    assert table.rows[0][table.head.index("znodes")] == ""
    assert lost(SAMPLES) == 3
    assert "3 sessions were lost" in table.title


def test_it_is_drawn(tmp_path: Path) -> None:
    draw(SAMPLES, tmp_path / "hours.svg")
    assert "<svg" in (tmp_path / "hours.svg").read_text()


@pytest.mark.real
def test_a_run_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "samples.jsonl"
    path.write_text("".join(f"{json.dumps(each)}\n" for each in SAMPLES[:1]))
    options = ["--minutes", "0.1", "--sample-every", "2", "--act-every", "1"]
    assert main(["--folder", str(tmp_path), *options]) == 0, capsys.readouterr()
    before, *samples = [json.loads(line) for line in path.read_text().splitlines()]
    assert before == SAMPLES[0]
    assert {each["piece"] for each in samples} == {2}
    assert samples[0]["seconds"] > before["seconds"]
    assert samples[0]["happened"].startswith("a proxy is upgraded")
    assert samples[0]["inserts"] > 0
    assert "| hour |" in capsys.readouterr().out
