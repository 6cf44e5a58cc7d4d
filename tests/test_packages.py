"""The packages as an operator uses them: install on a clean root, serve, upgrade, remove, purge."""

import configparser
import json
import os
import re
import signal
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from kazoo.client import KazooClient

from proxy.version import VERSION
from tests.harness import EtcdServer, ZketcdServer
from tests.harness.clean_root import CleanRoot, obstacle

REPOSITORY = Path(__file__).resolve().parents[1]
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}


class Packages(NamedTuple):
    """What `make package` builds, the Debian package in two revisions."""

    bill: Path
    archive: Path
    older: Path
    newer: Path


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Packages:
    target = tmp_path_factory.mktemp("packages")
    command = [sys.executable, str(REPOSITORY / "tools" / "make_packages.py"), str(target)]
    printed = subprocess.run(
        [*command, "--revision", "1", "--revision", "2"], check=True, capture_output=True, text=True
    ).stdout
    return Packages(*map(Path, printed.split()))


class Packaged(ZketcdServer):
    """A server that is started by a packaged command."""

    def __init__(self, etcd: EtcdServer, prefix: str, zketcd: Sequence[str], **variables: str) -> None:
        super().__init__(etcd.endpoint, prefix=prefix, variables=variables)
        self._zketcd = zketcd

    def command(self) -> Sequence[str]:
        """`zketcd serve` with the options of any other test's server."""
        _python, _m, _proxy, *options = super().command()
        return [*self._zketcd, "serve", *options]


def _serves_a_client(server: ZketcdServer) -> None:
    client = KazooClient(server.address)
    client.start(timeout=60)
    try:
        assert client.create("/packaged", b"data", sequence=True) == "/packaged0000000000"
        assert client.get("/packaged0000000000")[0] == b"data"
    finally:
        client.stop()
        client.close()


@pytest.mark.real
def test_the_archive_serves(
    packages: Packages, etcd_server: EtcdServer, etcd_prefix: str, tmp_path: Path
) -> None:
    variables = {"HOME": str(tmp_path), "SHIV_ROOT": str(tmp_path / "unpacked"), "PYTHONPATH": ""}
    environment = {**os.environ, **variables}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, packages.archive, *arguments],
            check=False,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment,
        )

    assert run("--version").stdout == f"zketcd {VERSION}\n"
    for shell in ("bash", "zsh", "fish"):
        assert "raise-level" in run("completion", shell).stdout
    assert "bench" not in run("help").stdout
    with zipfile.ZipFile(packages.archive) as archive:
        assert "site-packages/proxy/console/static/main.js" in archive.namelist()
    with Packaged(etcd_server, etcd_prefix, [sys.executable, str(packages.archive)], **variables) as server:
        _serves_a_client(server)
        listed = run("ls", "--etcd", etcd_server.endpoint, "--prefix", etcd_prefix, "/")
        assert (listed.returncode, listed.stdout.split()) == (0, ["packaged0000000000", "zookeeper"])
        # The snapshot writer is a child process, which has to find its modules too.
        written = run("snapshot", "--etcd", etcd_server.endpoint, "--prefix", etcd_prefix)
        assert (written.returncode, written.stderr) == (0, "")


def test_the_bill_of_materials_has_all_of_the_lock(packages: Packages) -> None:
    bill = json.loads(packages.bill.read_text())
    assert bill["bomFormat"] == "CycloneDX"
    subject = bill["metadata"]["component"]
    assert (subject["name"], subject["version"]) == ("zketcd", VERSION)
    locked = re.findall(
        r"^([\w.-]+)==(\S+)", (REPOSITORY / "requirements" / "runtime.txt").read_text(), re.MULTILINE
    )
    assert {(part["name"], part["version"]) for part in bill["components"]} == set(locked)


def test_the_debian_package_is_clean(packages: Packages) -> None:
    """What lintian looks at first: owners, modes, where files go, no paths of the machine that built it."""
    listing = subprocess.run(
        ["dpkg-deb", "--contents", packages.older], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    files = {}
    for line in listing:
        mode, owner, *_, name = line.partition(" -> ")[0].split(maxsplit=5)
        assert owner == "root/root", line
        assert mode[0] == "l" or mode[5] == mode[8] == "-", line
        files[name.removeprefix(".")] = mode
    assert {"/usr/share/doc/zketcd/copyright", "/usr/share/man/man1/zketcd.1.gz"} <= set(files)
    assert files["/usr/bin/zketcd"] == "-rwxr-xr-x"
    tops = {"/".join(name.split("/")[:3]) for name in files if name.count("/") > 2}
    assert tops == {"/etc/zketcd", "/opt/zketcd", "/usr/bin", "/usr/lib", "/usr/share"}
    assert any(name.endswith(".pyc") for name in files)
    assert any(name.endswith("/proxy/console/static/index.html") for name in files)
    content = subprocess.run(
        ["dpkg-deb", "--fsys-tarfile", packages.older], check=True, capture_output=True
    ).stdout
    assert str(REPOSITORY).encode() not in content
    assert str(packages.older.parent).encode() not in content


def test_the_unit_starts_what_the_package_holds() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.read(REPOSITORY / "deploy" / "debian" / "zketcd.service")
    service = unit["Service"]
    assert service["ExecStart"] == "/usr/bin/zketcd serve --config /etc/zketcd/zketcd.toml"
    assert service["Type"] == "notify"
    assert service["User"] == "zketcd"
    assert service["KillMode"] == "mixed"
    assert int(service["WatchdogSec"]) > 10


@pytest.fixture
def root(tmp_path: Path) -> CleanRoot:
    reason = obstacle()
    if reason:
        pytest.skip(reason)
    return CleanRoot(tmp_path)


@pytest.fixture
def notified(root: CleanRoot) -> Iterator[socket.socket]:
    """The socket that systemd would have."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        path = root.path / "run" / "notify"
        receiver.bind(str(path))
        path.chmod(0o666)
        receiver.settimeout(60)
        yield receiver


@pytest.mark.real
def test_installed_upgraded_removed_and_purged(
    packages: Packages,
    root: CleanRoot,
    notified: socket.socket,
    etcd_server: EtcdServer,
    etcd_prefix: str,
) -> None:
    for package in (packages.older, packages.newer):
        (root.path / "tmp" / package.name).write_bytes(package.read_bytes())
    root.run("dpkg", "--install", f"/tmp/{packages.older.name}")
    assert root.run("zketcd", "--version") == f"zketcd {VERSION}\n"
    assert root.run("dpkg", "--verify", "zketcd") == ""
    assert root.run("stat", "-c", "%U:%G %a", "/etc/zketcd/zketcd.toml") == "root:zketcd 640\n"
    assert root.run("stat", "-c", "%U:%G %a", "/var/lib/zketcd") == "zketcd:zketcd 750\n"
    lacking = root.run("zketcd", "export", "/tmp/x", status=2)
    assert lacking.startswith("zketcd export: ")
    assert " is not installed: " in lacking

    as_service = root.command("setpriv", "--reuid=zketcd", "--regid=zketcd", "--clear-groups", "zketcd")
    variables = {**_ENVIRONMENT, "NOTIFY_SOCKET": "/run/notify"}
    with Packaged(etcd_server, etcd_prefix, as_service, **variables) as server:
        assert notified.recv(100) == b"READY=1"
        _serves_a_client(server)
        os.kill(server.pid, signal.SIGTERM)
        assert notified.recv(100) == b"STOPPING=1"

    setting = "# an operator's own line\n"
    with (root.path / "etc/zketcd/zketcd.toml").open("a") as conffile:
        conffile.write(setting)
    (root.path / "var/lib/zketcd/data").write_text("kept")
    root.run("dpkg", "--install", f"/tmp/{packages.newer.name}")
    assert root.run("dpkg-query", "--show", "--showformat=${Version}", "zketcd") == f"{VERSION}-2"
    assert root.run("zketcd", "--version") == f"zketcd {VERSION}\n"
    assert (root.path / "etc/zketcd/zketcd.toml").read_text().endswith(setting)
    assert root.run("stat", "-c", "%U:%G %a", "/etc/zketcd/zketcd.toml") == "root:zketcd 640\n"
    assert (root.path / "var/lib/zketcd/data").read_text() == "kept"

    root.run("dpkg", "--remove", "zketcd")
    assert not (root.path / "opt/zketcd").exists()
    assert root.run("sh", "-c", "command -v zketcd", status=127) == ""
    assert (root.path / "etc/zketcd/zketcd.toml").read_text().endswith(setting)

    printed = root.run("dpkg", "--purge", "zketcd")
    assert not (root.path / "etc/zketcd").exists()
    assert (root.path / "var/lib/zketcd/data").read_text() == "kept"
    assert "/var/lib/zketcd stay" in printed
