"""Clients that authenticate by SASL, at two proxies of one tree: the Java client and kazoo.

tests/clients/test_kazoo_suite.py has kazoo's own tests, tests/compat/test_sasl.py the single packets.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from kazoo.security import make_acl

from lab.servers import EtcdServer, Kdc, ZketcdServer, wait_until, zookeeper_classpath
from lab.servers.four_letter import four_letter_word
from lab.servers.kerberos import REALM
from lab.servers.process import ServerProcess
from lab.servers.zookeeper import java_program
from tests.clients.spark import SHORT_LIVED
from tests.kazoo import kazoo

pytestmark = pytest.mark.real


class Proxies(NamedTuple):
    """Two proxies of one tree, with the same users and the same key; both keep an audit log."""

    first: ZketcdServer
    second: ZketcdServer
    audit: Path
    folder: Path


@pytest.fixture(scope="module")
def proxies(etcd_server: EtcdServer, kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxies]:
    folder = tmp_path_factory.mktemp("sasl")
    users = folder / "users"
    users.write_text("bob:bobs word\namy:amys word\n")
    audit = folder / "audit.log"

    def proxy() -> ZketcdServer:
        return ZketcdServer(
            etcd_server.endpoint,
            prefix="/sasl-clients",
            max_client_connections=0,
            sasl_users_file=users,
            sasl_keytab=kdc.server_keytab,
            sasl_principal=kdc.service,
            audit_log=audit,
            variables=kdc.client_environment(),
        )

    with proxy() as first, proxy() as second:
        yield Proxies(first, second, audit, folder)


def test_a_client_that_moves_authenticates_again(proxies: Proxies) -> None:
    amy = {"mechanism": "DIGEST-MD5", "username": "amy", "password": "amys word"}
    with kazoo(proxies.first, proxies.second, timeout=60, sasl_options=amy, randomize_hosts=False) as client:
        session = client.client_id
        assert session is not None
        client.create("/amys", b"1", acl=[make_acl("sasl", credential="amy", all=True)])
        proxies.first.stop()
        try:
            wait_until(lambda: _moved(proxies.second, session[0]), "the client's move", timeout=60)
            assert client.retry(client.get, "/amys")[0] == b"1"
            assert client.client_id == session
        finally:
            proxies.first.start()


def _moved(server: ServerProcess, session_id: int) -> bool:
    text = f"session 0x{session_id:x}: "
    return any(text in line and "is SASL user 'amy'" in line for line in server.log_text().splitlines())


def _failed(server: ServerProcess) -> int:
    lines = four_letter_word(server.port, "mntr").splitlines()
    return int(next(line for line in lines if line.startswith("zk_auth_failed_count")).split("\t")[1])


# -- the Java client -----------------------------------------------------------------------------------------


def _java(port: int, jaas: Path, kdc: Kdc, *command: str) -> str:
    done = subprocess.run(
        [
            java_program(),
            *SHORT_LIVED.split(),
            "-Dorg.apache.logging.log4j.level=WARN",
            f"-Djava.security.auth.login.config={jaas}",
            f"-Djava.security.krb5.conf={kdc.configuration}",
            # Else it asks for a ticket of the name that 127.0.0.1 has on this machine.
            f"-Dzookeeper.server.principal={kdc.service}",
            # ZooKeeper's clients have no DIGEST-MD5 otherwise.
            "-Dzookeeper.fips-mode=false",
            *("-cp", zookeeper_classpath(), "org.apache.zookeeper.ZooKeeperMain"),
            *("-server", f"127.0.0.1:{port}", *command),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout + done.stderr


def _jaas(folder: Path, name: str, module: str) -> Path:
    path = folder / f"{name}.jaas"
    path.write_text(f"Client {{ {module}; }};\n")
    return path


def _digest(folder: Path, name: str, password: str) -> Path:
    module = "org.apache.zookeeper.server.auth.DigestLoginModule required"
    return _jaas(folder, password, f'{module} username="{name}" password="{password}"')


def _creates(proxies: Proxies, kdc: Kdc, jaas: Path, path: str) -> str:
    """The owner of the Java client's own node, which every client may read."""
    port = proxies.second.port
    assert f"Created {path}" in _java(port, jaas, kdc, "create", path, "", "auth::crwda,world:anyone:r")
    with kazoo(proxies.second, timeout=60) as client:
        owner: str = client.get_acls(path)[0][0].id.id
        return owner


def test_the_java_client_by_digest_md5(proxies: Proxies, kdc: Kdc) -> None:
    bob = _digest(proxies.folder, "bob", "bobs word")
    assert _creates(proxies, kdc, bob, "/java-bob") == "bob"


def test_the_java_client_with_a_wrong_password(proxies: Proxies, kdc: Kdc) -> None:
    wrong = _digest(proxies.folder, "bob", "wrong")
    before = _failed(proxies.second)
    assert "AuthFailed" in _java(proxies.second.port, wrong, kdc, "ls", "/")
    # And what the operator sees.
    wait_until(lambda: _failed(proxies.second) > before, "it is counted")
    audited = "user=bob\tip=127.0.0.1\toperation=authenticate\tscheme=sasl\tresult=failure"
    wait_until(lambda: audited in proxies.audit.read_text(), "the audit log has it")
    logged = "scheme 'sasl', user 'bob': the password is wrong"
    wait_until(lambda: logged in proxies.second.log_text(), "the log has it")
    assert "s word" not in proxies.second.log_text() + proxies.audit.read_text()


def test_the_java_client_by_kerberos(proxies: Proxies, kdc: Kdc) -> None:
    keytab = kdc.add("java", "java.keytab")
    module = "com.sun.security.auth.module.Krb5LoginModule required"
    java = _jaas(
        proxies.folder,
        "kerberos",
        f'{module} useKeyTab=true keyTab="{keytab}" storeKey=true principal="java@{REALM}"',
    )
    assert _creates(proxies, kdc, java, "/java-krb") == f"java@{REALM}"
