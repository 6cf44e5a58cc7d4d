"""The environment of those who start a server, as for tests of its options."""

from tests.proxy.conftest import no_environment

__all__ = ["no_environment"]
