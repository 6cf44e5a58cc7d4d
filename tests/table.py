"""Many cases of one thing as one test: pytest needs ten times as long to run a test as most of them take.

A test that needs a clean `tmp_path`, `capsys` or other fixture for each case keeps `pytest.mark.parametrize`.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, cast

import pytest

_Ids = Iterable[object] | Callable[[Any], object] | None


def one_by_one(
    names: str | tuple[str, ...], rows: Iterable[object], ids: _Ids = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Takes what `pytest.mark.parametrize` takes. All cases run; each failure names its case."""
    parameters = (names,) if isinstance(names, str) else names
    table = list(_table(parameters, rows, ids))
    assert table, "no case at all"

    def one(test: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(test)
        def run(**fixtures: Any) -> None:
            failures: list[BaseException] = []
            for name, values in table:
                with _noted(name, failures):
                    test(**fixtures, **values)
            _end(failures)

        @wraps(test)
        async def run_async(**fixtures: Any) -> None:
            failures: list[BaseException] = []
            for name, values in table:
                with _noted(name, failures):
                    await test(**fixtures, **values)
            _end(failures)

        made: Any = run_async if inspect.iscoroutinefunction(test) else run
        signature = inspect.signature(test)
        others = [each for each in signature.parameters.values() if each.name not in parameters]
        made.__signature__ = signature.replace(parameters=others)
        return cast(Callable[..., Any], made)

    return one


def _table(
    parameters: tuple[str, ...],
    rows: Iterable[object],
    ids: Iterable[object] | Callable[[Any], object] | None,
) -> Iterator[tuple[str, dict[str, Any]]]:
    names = None if ids is None or callable(ids) else iter(ids)
    for row in rows:
        own: object = None
        if isinstance(row, type(pytest.param())):
            assert not row.marks, "a mark would be for all cases"
            own, row = row.id, row.values if len(parameters) > 1 else row.values[0]
        values = tuple(row) if len(parameters) > 1 else (row,)  # type: ignore[arg-type]
        if own is None:
            own = next(names) if names is not None else None
        if own is None:
            own = ", ".join(str(ids(value)) if callable(ids) else repr(value)[:200] for value in values)
        yield str(own), dict(zip(parameters, values, strict=True))


@contextmanager
def _noted(name: str, failures: list[BaseException]) -> Iterator[None]:
    try:
        yield
    except (Exception, pytest.fail.Exception) as failure:  # noqa: BLE001 - all of them are raised at the end
        failure.add_note(f"in the case: {name}")
        failures.append(failure)


def _end(failures: list[BaseException]) -> None:
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise BaseExceptionGroup(f"{len(failures)} cases", failures)
