"""The scenarios' tables, and each of them once on real servers, as small as it can be."""

import json
import re
from pathlib import Path

import pytest

from bench.scenarios import Table, markdown
from bench.scenarios.__main__ import main, scale


def test_a_table_shows_three_digits_that_count() -> None:
    table = Table(
        "A title", ["server", "op/s", "ms"], [["zketcd", 12345.6, 0.012345], ["other", 1000000, 12.3]]
    )
    assert markdown(table).splitlines() == [
        "### A title",
        "",
        "| server | op/s | ms |",
        "| --- | --: | --: |",
        "| zketcd | 12,346 | 0.0123 |",
        "| other | 1,000,000 | 12.3 |",
    ]


@pytest.mark.parametrize("value", ["0", "-1", "2", "much"])
def test_a_scale_is_a_share(value: str) -> None:
    with pytest.raises(Exception, match="above 0"):
        scale(value)


def test_an_unknown_scenario_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["fanout", "fan-out"])
    assert ended.value.code == 2
    assert "'fan-out' is none of fanout, " in capsys.readouterr().err


@pytest.mark.real
@pytest.mark.parametrize("name", ["fanout", "watched", "idle", "memory", "proxies", "delay", "overload"])
def test_a_scenario_runs(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "figures.json"
    assert main([name, "--scale", "0.002", "--json", str(path)]) == 0
    assert re.search(r"^\| zketcd |^\| 1 \| 2 |^\| 20 ", capsys.readouterr().out, re.MULTILINE)
    table = json.loads(path.read_text())[name]
    assert table["rows"]
    assert all(len(row) == len(table["head"]) for row in table["rows"])
    figures = [cell for row in table["rows"] for cell in row[1:]]
    assert all(figure >= 0 for figure in figures)
