"""The seeds of a campaign: `make unit` runs the first ones, `make test` all."""

import pytest
from _pytest.mark import ParameterSet


def seeds(quick: int, count: int) -> list[ParameterSet]:
    """Parameters 0 to `count` - 1, of which those from `quick` on are marked `long`."""
    return [pytest.param(seed, marks=pytest.mark.long if seed >= quick else ()) for seed in range(count)]
