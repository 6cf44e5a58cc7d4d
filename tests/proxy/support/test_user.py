"""The name of the user that runs a process."""

import os
from unittest import mock

import pytest

from proxy.support.user import user_name


@pytest.mark.parametrize("error", [KeyError("getpwuid(): uid not found: 10001"), OSError("No username set")])
def test_a_user_without_a_name_has_a_number(error: Exception) -> None:
    with mock.patch("getpass.getuser", side_effect=error):
        assert user_name() == str(os.getuid())


def test_a_user_with_a_name() -> None:
    with mock.patch("getpass.getuser", return_value="zketcd"):
        assert user_name() == "zketcd"
