"""What all clients together may have waiting."""

from proxy.frontend.load import Load


def test_more_than_the_limit_is_too_much() -> None:
    load = Load(2)
    load.requests = 2
    assert not load.is_too_much
    load.requests = 3
    assert load.is_too_much


def test_so_are_a_few_that_are_very_large() -> None:
    load = Load(2)
    load.size = 1 << 28
    assert not load.is_too_much
    load.size += 1
    assert load.is_too_much
