"""Figures of a report."""

import io
from contextlib import closing
from types import ModuleType

import pytest

from pipeline.traffic.database import Database
from pipeline.traffic.report import Report, made
from tests.pipeline.traffic.rows import lively, traffic

pytestmark = pytest.mark.long


@pytest.fixture
def plots() -> ModuleType:
    """Without matplotlib in each process that lists all tests."""
    from pipeline.traffic import plots

    return plots


def report(*, empty: bool = False) -> Report:
    with closing(Database()) as database:
        database.add([] if empty else lively())
        return made("logs", database.query, 10)


def test_a_figure_for_each_view_that_has_something_to_show(plots: ModuleType) -> None:
    figures = plots.svgs(report())
    assert set(figures) == {
        *(
            "traffic_seconds",
            "traffic_prefixes",
            "traffic_directories",
            "traffic_multis",
            "traffic_sequences",
        ),
        *("traffic_flapping", "traffic_growth", "traffic_clickhouse"),
    }
    for figure in figures.values():
        assert figure.startswith("<svg")
        assert figure.rstrip().endswith("</svg>")
    assert "/app/config" in figures["traffic_prefixes"]
    assert plots.svgs(report()) == figures  # the same bytes each time
    assert plots.svgs(report(empty=True)) == {}


def test_one_picture(plots: ModuleType) -> None:
    from matplotlib.image import imread

    picture = imread(io.BytesIO(plots.png(report())))
    assert picture.shape[1] == 1080
    empty = imread(io.BytesIO(plots.png(report(empty=True))))
    assert empty.shape[0] < picture.shape[0]


def test_a_path_is_no_formula(plots: ModuleType) -> None:
    """Clients choose paths, and what is between dollar signs may be no formula that can be drawn."""
    with closing(Database()) as database:
        database.add([traffic("setData", r"/a$\b$", bytes=1)])
        found = made("logs", database.query, 10)
    assert r"/a$\b$" in plots.svgs(found)["traffic_prefixes"]
    assert plots.png(found)
