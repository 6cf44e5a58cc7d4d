"""Which differences of two SVGs count."""

import pytest

from bench.plots.comparison import look_alike

SVG = """<svg><path id="m44eeb99767" d="M 10.5 20.25 \nL -3 4"/>
<use href="#m44eeb99767" style="fill: #7a7a7a"/>
<text x="1.5" transform="rotate(-0 1.5 2)">0.1</text></svg>"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("20.25", "20.250001"),
        ("1.5", "1.499999"),
        ("m44eeb99767", "m059f57b4ec"),
    ],
)
def test_rounding_and_hashed_ids_do_not_count(old: str, new: str) -> None:
    assert SVG.replace(old, new) != SVG
    assert look_alike(SVG, SVG.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("20.25", "20.3"),
        (" -3", " 3"),
        ("M 10.5", "L 10.5"),
        (">0.1<", ">0.100001<"),
        ("#7a7a7a", "#7b7a7a"),
        ('href="#m44eeb99767"', 'href="#m059f57b4ec"'),
        ("<text", "<path/><text"),
        (' style="fill: #7a7a7a"', ""),
        ("text", "tspan"),
    ],
)
def test_what_a_reader_sees_counts(old: str, new: str) -> None:
    assert not look_alike(SVG, SVG.replace(old, new))
