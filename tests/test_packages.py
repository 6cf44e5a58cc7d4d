"""The packages as an operator uses them: install on a clean root, serve, upgrade, restore, remove."""

import configparser
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from sysconfig import get_path
from typing import NamedTuple

import pytest

from lab.servers import EtcdServer, ZketcdServer
from lab.servers.clean_root import CleanRoot, obstacle
from lab.servers.process import find_program
from proxy.version import VERSION
from tests.kazoo import kazoo

REPOSITORY = Path(__file__).resolve().parents[1]
_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
_SERVICE_USER = ("setpriv", "--reuid=zketcd", "--regid=zketcd", "--clear-groups")
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
    made = subprocess.run(
        [*command, "--revision", "1", "--revision", "2"],
        umask=0o027,  # which dpkg-deb does not take for its own folder
        check=False,
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    return Packages(*map(Path, made.stdout.split()))


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
    with kazoo(server) as client:
        assert client.create("/packaged", b"data", sequence=True) == "/packaged0000000000"
        assert client.get("/packaged0000000000")[0] == b"data"


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
        assert "site-packages/console/static/main.js" in archive.namelist()
    with Packaged(etcd_server, etcd_prefix, [sys.executable, str(packages.archive)], **variables) as server:
        _serves_a_client(server)
        listed = run("ls", "--etcd", etcd_server.endpoint, "--prefix", etcd_prefix, "/")
        assert (listed.returncode, listed.stdout.split()) == (0, ["packaged0000000000", "zookeeper"])
        # The snapshot writer is a child process, which has to find its modules too.
        written = run("snapshot", "--etcd", etcd_server.endpoint, "--prefix", etcd_prefix)
        assert (written.returncode, written.stderr) == (0, "")


@pytest.mark.long
def test_the_bill_of_materials_has_all_that_is_inside(packages: Packages) -> None:
    bill = json.loads(packages.bill.read_text())
    assert bill["bomFormat"] == "CycloneDX"
    subject = bill["metadata"]["component"]
    assert (subject["name"], subject["version"]) == ("zketcd", VERSION)
    with zipfile.ZipFile(packages.archive) as archive:
        inside = re.findall(
            r"^site-packages/([\w.]+)-([\w.]+)\.dist-info/METADATA$",
            "\n".join(archive.namelist()),
            re.MULTILINE,
        )
    assert inside
    named = [(part["name"].replace("-", "_"), part["version"]) for part in bill["components"]]
    assert sorted(named) == sorted(inside)


@pytest.mark.long
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
    documents = Path("/usr/share/doc/zketcd")
    for name in files:
        if name.startswith(f"{documents}/") and name.endswith(".md"):
            page = REPOSITORY / Path(name).relative_to(documents)
            for link in re.findall(r"\]\(([\w./-]+)[)#]", page.read_text()):
                assert os.path.normpath(Path(name).parent / link) in files, (name, link)
    assert {f"{documents}/docs/operating.md", f"{documents}/README.md"} <= set(files)
    locks = Path("/usr/share/zketcd")
    for name in files:
        if name.startswith(f"{locks}/") and name.endswith(".txt"):
            lock = REPOSITORY / "requirements" / Path(name).name
            for other in re.findall(r"^-r (.*)$", lock.read_text(), re.MULTILINE):
                assert f"{locks}/{other}" in files, (name, other)
    assert any(name.endswith("/console/static/index.html") for name in files)
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


def _tells_how_to_add_libraries(root: CleanRoot) -> None:
    said = root.run("zketcd", "export", "/tmp/x", status=2)
    found = re.fullmatch(r"zketcd export: \w+ is not installed: `(.*)` installs it\n", said)
    assert found is not None, said
    assert found[1] in (REPOSITORY / "docs" / "install.md").read_text()
    root.run("test", "-f", found[1].split()[-1])


def _refuses_what_is_wrong(root: CleanRoot) -> None:
    """The unit's command, by its user: one line, exit code 2, and nothing is written."""
    etc = root.path / "etc/zketcd"
    conffile = etc / "zketcd.toml"
    right = conffile.read_text()
    key = etc / "server.key"
    key.write_text("a secret of root's")
    key.chmod(0o600)
    for text, mode, reason in (
        (right, 0o600, "Permission denied: '/etc/zketcd/zketcd.toml'"),
        (right[: right.index("2379")], 0o640, "/etc/zketcd/zketcd.toml: Couldn't parse TOML file: "),
        (f'{right}tls-key = "/etc/zketcd/server.key"\n', 0o640, "server.key' is not a readable file"),
        (f'{right}lisden = "127.0.0.1:2181"\n', 0o640, "unrecognized arguments: --lisden ("),
    ):
        conffile.write_text(text)
        conffile.chmod(mode)
        said = root.run(*_SERVICE_USER, "zketcd", "serve", "--config", "/etc/zketcd/zketcd.toml", status=2)
        assert said.startswith("zketcd serve: error: ")
        assert reason in said
        assert said.count("\n") == 1
        assert list((root.path / "var/lib/zketcd").iterdir()) == []
    key.unlink()
    conffile.write_text(right)
    conffile.chmod(0o640)


def _backed_up_destroyed_and_restored(
    root: CleanRoot, etcd: EtcdServer, prefix: str, zketcd: Sequence[str]
) -> None:
    """With the libraries that install.md has pip install: a root without network takes them from here."""
    libraries = root.path / "opt/zketcd/lib" / f"python{_PYTHON}" / "site-packages"
    for name in ("numpy", "numpy.libs", "pyarrow"):
        shutil.copytree(
            Path(get_path("purelib")) / name,
            libraries / name,
            ignore=shutil.ignore_patterns("__pycache__", "include", "tests"),
        )
    tree = ("--etcd", etcd.endpoint, "--prefix", prefix)
    with Packaged(etcd, prefix, zketcd, **_ENVIRONMENT) as server, kazoo(server) as client:
        assert client.get("/packaged0000000000")[0] == b"data"  # from before the upgrade
        client.create("/app/config", b"color=blue", makepath=True)
        last = client.set("/app/config", b"color=red").last_modified_transaction_id
        root.run("zketcd", "export", "/var/backups/monday", *tree)
    etcdctl = find_program("etcdctl", "make setup-test installs it")
    subprocess.run(
        [etcdctl, "--endpoints", etcd.endpoint, "del", "--prefix", prefix],
        check=True,
        capture_output=True,
        env={**os.environ, "ETCDCTL_API": "3"},
    )
    assert "there is no tree under" in root.run("zketcd", "get", "/app/config", *tree, status=1)
    root.run("zketcd", "import", "/var/backups/monday", *tree)
    with Packaged(etcd, prefix, zketcd, **_ENVIRONMENT) as server, kazoo(server) as client:
        data, stat = client.get("/app/config")
        assert (data, stat.version, stat.last_modified_transaction_id) == (b"color=red", 1, last)
        assert client.get("/packaged0000000000")[0] == b"data"
        assert client.create("/packaged", sequence=True) == "/packaged0000000002"


@pytest.mark.real
def test_installed_upgraded_removed_and_purged(
    packages: Packages, root: CleanRoot, notified: socket.socket, etcd_server: EtcdServer, etcd_prefix: str
) -> None:
    for package in (packages.older, packages.newer):
        (root.path / "tmp" / package.name).write_bytes(package.read_bytes())
    root.run("dpkg", "--install", f"/tmp/{packages.older.name}")
    assert root.run("zketcd", "--version") == f"zketcd {VERSION}\n"
    assert root.run("dpkg", "--verify", "zketcd") == ""
    assert root.run("stat", "-c", "%U:%G %a", "/etc/zketcd/zketcd.toml") == "root:zketcd 640\n"
    assert root.run("stat", "-c", "%U:%G %a", "/var/lib/zketcd") == "zketcd:zketcd 750\n"
    _tells_how_to_add_libraries(root)
    _refuses_what_is_wrong(root)

    as_service = root.command(*_SERVICE_USER, "zketcd")
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
    # From now on a systemd that refuses, as for a masked unit: no package stays half-installed.
    root.run("sh", "-c", "mkdir -p /run/systemd/system && ln -sf false /usr/bin/systemctl")
    root.run("dpkg", "--install", f"/tmp/{packages.newer.name}")
    assert root.run("dpkg-query", "--show", "--showformat=${Version}", "zketcd") == f"{VERSION}-2"
    assert root.run("zketcd", "--version") == f"zketcd {VERSION}\n"
    assert (root.path / "etc/zketcd/zketcd.toml").read_text().endswith(setting)
    assert root.run("stat", "-c", "%U:%G %a", "/etc/zketcd/zketcd.toml") == "root:zketcd 640\n"
    assert (root.path / "var/lib/zketcd/data").read_text() == "kept"
    _backed_up_destroyed_and_restored(root, etcd_server, etcd_prefix, as_service)

    root.run("dpkg", "--remove", "zketcd")
    assert not (root.path / "opt/zketcd").exists()
    assert root.run("sh", "-c", "command -v zketcd", status=127) == ""
    assert (root.path / "etc/zketcd/zketcd.toml").read_text().endswith(setting)

    printed = root.run("dpkg", "--purge", "zketcd")
    assert not (root.path / "etc/zketcd").exists()
    assert (root.path / "var/lib/zketcd/data").read_text() == "kept"
    assert "/var/lib/zketcd stay" in printed
