"""A test over a table runs all cases, and what failed has their names."""

import pytest

from tests.table import one_by_one


def test_each_failure_names_its_case() -> None:
    ran = []

    @one_by_one(("number", "word"), [(1, "a"), pytest.param(2, "b", id="the second"), (3, "c")])
    def test(number: int, word: str, fixture: str) -> None:
        ran.append((number, word, fixture))
        assert number == 1, word

    with pytest.raises(BaseExceptionGroup, match="2 cases") as failed:
        test(fixture="f")
    assert ran == [(1, "a", "f"), (2, "b", "f"), (3, "c", "f")]
    notes = [each.__notes__ for each in failed.value.exceptions]
    assert notes == [["in the case: the second"], ["in the case: 3, 'c'"]]


@pytest.mark.parametrize(
    ("ids", "name"), [(["one", "two"], "two"), (hex, "0x2"), (None, "2")], ids=["list", "function", "none"]
)
def test_cases_have_the_names_that_they_are_given(ids: list[str] | None, name: str) -> None:
    @one_by_one("number", [1, 2], ids)
    def test(number: int) -> None:
        if number == 2:
            pytest.fail("wrong")

    with pytest.raises(pytest.fail.Exception, match="wrong") as failed:
        test()
    assert failed.value.__notes__ == [f"in the case: {name}"]


async def test_coroutines_and_tables_of_tables() -> None:
    @one_by_one("first", "ab")
    @one_by_one("second", (1, 2))
    async def test(first: str, second: int) -> None:
        assert (first, second) != ("b", 1)

    with pytest.raises(AssertionError) as failed:
        await test()
    assert failed.value.__notes__ == ["in the case: 1", "in the case: 'b'"]


def test_a_table_without_cases_proves_nothing() -> None:
    with pytest.raises(AssertionError, match="no case"):
        one_by_one("number", [])
