"""The errors are values' errors, so that a caller may catch either with ValueError."""

from schema.errors import BadValue, ForeignKey


def test_both_are_value_errors_and_distinct() -> None:
    assert issubclass(BadValue, ValueError)
    assert issubclass(ForeignKey, ValueError)
    assert not issubclass(BadValue, ForeignKey)
