"""Numbers of the command line have bounds, which errors name."""

import argparse
from collections.abc import Callable

import pytest

from lab.arguments import count, names_of, number, rate, seconds, size, whole


@pytest.mark.parametrize(
    ("parse", "good", "bad"),
    [
        (count, ["1", "0999"], ["0", "-1", "1.0", "", "²", "9" * 5000]),
        (size, ["0"], ["-1"]),
        (whole(1, 100), ["100"], ["101"]),
        (seconds, ["0.5", "86400"], ["0", "nan", "inf", "soon", "86401"]),
        (rate, ["0"], ["-1"]),
        (number(1), ["1"], ["1.1"]),
        (names_of(["a", "b"]), ["a", "b,a"], ["", "a,c"]),
    ],
)
def test_bounds(parse: Callable[[str], object], good: list[str], bad: list[str]) -> None:
    for value in good:
        parse(value)
    for value in bad:
        with pytest.raises(argparse.ArgumentTypeError):
            parse(value)
