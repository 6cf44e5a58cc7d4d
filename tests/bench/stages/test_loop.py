"""Whose work it is, by the names of callbacks and tasks."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import proxy
from bench.stages.cases import Case, run
from bench.stages.loop import STAGES
from bench.stages.meter import OF_THE_PROXY, OTHER


def test_each_name_is_one_of_the_proxy() -> None:
    methods = (inspect.getmembers(kind, inspect.isfunction) for kind in _classes_of_the_proxy())
    names = {method.__qualname__ for of_class in methods for _, method in of_class}
    assert STAGES.keys() - names == set()


def _classes_of_the_proxy() -> Iterator[type]:
    for module in pkgutil.walk_packages(proxy.__path__, "proxy."):
        if not module.name.endswith("__main__"):
            for _, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
                yield kind


def test_hardly_anything_is_left_over() -> None:
    figures = run(Case("create", 16, 8), 16, 8, counting=True)
    of_python, of_c = figures.calls()
    other = sum(figures.calls_in(OTHER))
    assert 0 < other < 0.05 * (of_python + of_c)
    assert all(sum(figures.calls_in(stage)) > 0 for stage in OF_THE_PROXY)
    assert set(figures.microseconds()) == set(OF_THE_PROXY)
