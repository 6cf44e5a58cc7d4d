"""The SVG of a figure."""

from functools import partial
from xml.etree import ElementTree

from bench.plots import figures
from bench.plots.style import COLOURS, svg
from tests.bench.plots.sample import MEMORY


def test_the_same_figure_is_the_same_file() -> None:
    first = svg(partial(figures.memory, MEMORY))
    assert svg(partial(figures.memory, MEMORY)) == first
    assert "<dc:date>" not in first
    assert COLOURS["zketcd"] in first


def test_its_text_is_text_and_it_has_no_ground_of_its_own() -> None:
    root = ElementTree.fromstring(svg(partial(figures.memory, MEMORY)))
    texts = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"resident memory, MB", "znodes of 100 bytes", "zketcd's proxy"} <= texts
    assert "fill: #ffffff" not in svg(partial(figures.memory, MEMORY))
