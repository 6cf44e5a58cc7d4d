"""A large tree, as a small one."""

import pytest

from bench.scenarios import large


@pytest.mark.real
def test_what_long_work_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "_QUIET_S", 0.1)
    monkeypatch.setattr(large, "_TRANSACTIONS", 2000)
    table = large.run(0.001)
    assert all(len(row) == len(table.head) for row in table.rows)
    assert [row[1] for row in table.rows if row[0] == "zketcd"] == [
        "import",
        "start",
        "nothing else",
        "a snapshot",
        "list the directory",
        "list it again",
        "an upgrade",
        "delete the directory",
        "a start again",
    ]
    figures = [figure for row in table.rows for figure in row[2:] if not isinstance(figure, str)]
    assert all(figure >= 0 for figure in figures)
    felt = [row for row in table.rows if row[2] and row[1] not in {"import", "start", "a start again"}]
    assert len(felt) == 6 + 5
    assert all(isinstance(figure, float) for row in felt for figure in row[7:])
