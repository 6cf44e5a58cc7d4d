"""Clients of the whole servers in these tests are closed at their end."""

from tests.proxy.test_server import _clients_are_closed as _clients_are_closed
