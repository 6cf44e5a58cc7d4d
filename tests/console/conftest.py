"""Clients of the whole servers in these tests are closed at their end."""

from tests.proxy.admin.conftest import _clients_are_closed as _clients_are_closed
