"""The class path of ZooKeeper's programs."""

import os
import zipfile

import pytest

from lab.servers.zookeeper import zookeeper_classpath


def _named_by(jar: str) -> list[str]:
    """The libraries that the manifest of a jar adds to the class path, right behind it."""
    with zipfile.ZipFile(jar) as archive:
        manifest = archive.read("META-INF/MANIFEST.MF").decode().replace("\r\n", "\n").replace("\n ", "")
    lines = [
        line.removeprefix("Class-Path: ") for line in manifest.splitlines() if line[:12] == "Class-Path: "
    ]
    return " ".join(lines).split()


@pytest.mark.parametrize("version", ["3.9", "3.8"])
def test_a_zookeeper_that_is_installed_does_not_count(version: str) -> None:
    *others, server = zookeeper_classpath(version).split(os.pathsep)
    assert {jar: _named_by(jar) for jar in others if any(name[0] == "/" for name in _named_by(jar))} == {}
    assert os.path.basename(server).startswith(f"zookeeper-{version}.")
    if ".cache" in server:
        assert any(jar.endswith("/zookeeper-jute.jar") for jar in _named_by(server))
