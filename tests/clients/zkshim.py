"""pytest plugin for kazoo's own test suite: points it at servers that run already.

Here: what stands for kazoo's own cluster of ZooKeepers, and the skipping of tests for which something is not
given. Not here: which tests have to pass (test_kazoo_suite.py).

  KAZOO_SUITE_PORTS    the servers' ports on 127.0.0.1, with commas between
  KAZOO_SUITE_CONTROL  port of test_kazoo_suite.py's control, which stops and starts servers
  KAZOO_SUITE_TLS      folder with ca.pem, kazoo.cert.pem and kazoo.key.pem, if the ports take TLS clients too
  KRB5_TEST_ENV        folder with client.keytab, if the servers take SASL: the user jaasuser, and Kerberos
"""

import os
import socket
import sys
import types
from pathlib import Path

import pytest

# kazoo's harness imports them to make certificates, which no test here needs.
for _name in ("OpenSSL", "jks"):
    sys.modules.setdefault(_name, types.ModuleType(_name))

from kazoo.testing import harness  # noqa: E402 - needs the stand-ins above

_CONTROL_TIMEOUT_S = 120.0

_SASL = "the servers know no SASL user"

_NOT_GIVEN = {"test_add_remove_observer": "needs an ensemble of ZooKeepers"}


class Server:
    """What kazoo's tests use of kazoo.testing.common.ManagedZooKeeper."""

    host = "127.0.0.1"

    def __init__(self, port: int) -> None:
        self.client_port = port
        self.address = self.secure_address = f"{self.host}:{port}"
        self.running = True

    def run(self) -> None:
        """Start the server if it is stopped; return once it serves."""
        if not self.running:
            self._ask("start")
            self.running = True

    def stop(self) -> None:
        """Stop the server if it runs."""
        if self.running:
            self._ask("stop")
            self.running = False

    def _ask(self, action: str) -> None:
        control = (self.host, int(os.environ["KAZOO_SUITE_CONTROL"]))
        with socket.create_connection(control, _CONTROL_TIMEOUT_S) as connection:
            connection.sendall(f"{action} {self.client_port}\n".encode())
            with connection.makefile() as lines:
                answer = lines.readline().strip()
        if answer != "done":
            raise RuntimeError(f"cannot {action} the server on port {self.client_port}: {answer}")


class Cluster(list[Server]):
    """What kazoo's tests use of kazoo.testing.common.ZookeeperCluster."""

    def start(self) -> None:
        """Start the servers that a test left stopped."""
        for server in self:
            server.run()

    def terminate(self) -> None:
        """After each class of tests: the servers stay for the next one."""

    def get_ssl_client_configuration(self) -> dict[str, bytes]:
        """What a client needs for TLS, in PEM."""
        folder = Path(os.environ["KAZOO_SUITE_TLS"])
        files = {"client_key": "kazoo.key.pem", "client_cert": "kazoo.cert.pem", "ca_cert": "ca.pem"}
        return {name: (folder / file).read_bytes() for name, file in files.items()}

    def get_logs(self) -> list[str]:
        """The servers' logs are shown by the fixtures that started them."""
        return []


if "KAZOO_SUITE_TLS" not in os.environ:
    _NOT_GIVEN["TestSSLClient"] = "the servers have no TLS listener"
if "KRB5_TEST_ENV" not in os.environ:
    _NOT_GIVEN["TestLegacySASLDigestAuthentication"] = _SASL
    _NOT_GIVEN["TestSASLDigestAuthentication"] = _SASL
    _NOT_GIVEN["TestSASLGSSAPIAuthentication"] = _SASL

_cluster = Cluster(Server(int(port)) for port in os.environ["KAZOO_SUITE_PORTS"].split(","))
harness.get_global_cluster = lambda: _cluster


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs something that is not given."""
    for item in items:
        for name in item.nodeid.split("::")[1:]:
            if name in _NOT_GIVEN:
                item.add_marker(pytest.mark.skip(reason=_NOT_GIVEN[name]))
