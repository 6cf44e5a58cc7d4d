"""The tool, as small as it can be."""

import json
import re
from pathlib import Path

import pytest

from bench.stages.__main__ import main
from bench.stages.cases import NAMES
from bench.stages.meter import OF_THE_PROXY

_SMALL = ["--connections", "4", "--depth", "5", "--requests", "40", "--rounds", "1"]
_SOME = ("get", "create")


@pytest.mark.parametrize(("how", "names"), [([], NAMES), (["--calls"], _SOME), (["--profile"], _SOME)])
def test_workloads_are_shown_by_stage(
    how: list[str], names: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "figures.json"
    assert main([*_SMALL, *how, "--workloads", ",".join(names), "--json", str(path)]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n| {name} |" in shown for name in names)
    assert ("cumulative time" in shown or "cumtime" in shown) == (how == ["--profile"])
    found = json.loads(path.read_text())
    assert tuple(found) == names
    for name, figures in found.items():
        assert figures["requests"] == 40
        assert (figures["etcd"]["txns"] > 0) == (name not in ("get", "exists", "children"))
        stages = figures["calls"] if how == ["--calls"] else figures["microseconds"]
        assert tuple(stages) == OF_THE_PROXY
        assert stages["order"] != 0


def test_a_znode_is_weighed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--znodes", "100"]) == 0
    for line, what in zip(
        capsys.readouterr().out.splitlines(), ("loaded from a snapshot", "created"), strict=True
    ):
        assert re.fullmatch(what + r": \d+\.\d bytes each .*, in \d+\.\d\d blocks", line)
