"""Figures of a report."""

import io
from contextlib import closing

import matplotlib.image
import pytest

from pipeline.traffic import plots
from pipeline.traffic.database import Database
from pipeline.traffic.report import Report, made
from tests.pipeline.traffic.rows import lively, traffic

pytestmark = pytest.mark.long


def report(*, empty: bool = False) -> Report:
    with closing(Database()) as database:
        database.add([] if empty else lively())
        return made("logs", database.query, 10)


def test_a_figure_for_each_view_that_has_something_to_show() -> None:
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


def test_one_picture() -> None:
    picture = matplotlib.image.imread(io.BytesIO(plots.png(report())))
    assert picture.shape[1] == 1080
    empty = matplotlib.image.imread(io.BytesIO(plots.png(report(empty=True))))
    assert empty.shape[0] < picture.shape[0]


def test_a_path_is_no_formula() -> None:
    """Clients choose paths, and what is between dollar signs may be no formula that can be drawn."""
    with closing(Database()) as database:
        database.add([traffic("setData", r"/a$\b$", bytes=1)])
        found = made("logs", database.query, 10)
    assert r"/a$\b$" in plots.svgs(found)["traffic_prefixes"]
    assert plots.png(found)
