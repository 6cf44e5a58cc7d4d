"""The JVM that tests of Java libraries share."""

from typing import Any

import pytest
from py4j import java_gateway

from tests.clients.jvm import java_virtual_machine

pytestmark = pytest.mark.real


def test_exceptions_are_not_looked_up_in_the_jvm_of_a_spark_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Spark session of this process has py4j ask its own JVM, where the same number is another object."""

    def asked_of_spark(*arguments: Any, **named: Any) -> Any:
        raise AssertionError("Spark's handler was asked")

    monkeypatch.setattr(java_gateway, "get_return_value", asked_of_spark)
    with java_virtual_machine() as jvm:
        # The end of an iterator is an exception in Java.
        assert list(jvm.find("java.util.ArrayList")()) == []
    assert java_gateway.get_return_value is asked_of_spark
