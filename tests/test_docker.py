"""What can be said of the image and the compose file without a Docker engine."""

import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import yaml

from cli.commands import COMMANDS
from proxy.support.libraries import OF_IMAGE
from tools import folders

REPOSITORY = Path(__file__).resolve().parents[1]


def _copied() -> list[str]:
    dockerfile = (REPOSITORY / "Dockerfile").read_text()
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", dockerfile, re.MULTILINE)
    return [source for sources in copied for source in sources.split()]


def test_what_the_image_copies_exists_and_nothing_else_is_sent_to_the_builder() -> None:
    lines = (REPOSITORY / ".dockerignore").read_text().splitlines()
    assert "*" in lines
    assert {line[1:] for line in lines if line.startswith("!")} == set(_copied())
    assert [source for source in _copied() if not (REPOSITORY / source).exists()] == []


def test_the_image_has_all_packages_and_the_command(tmp_path: Path) -> None:
    """Copied as the Dockerfile says: each command but `bench` is there, and finds its program."""
    dockerfile = (REPOSITORY / "Dockerfile").read_text()
    app = tmp_path / "app"
    for package in folders.product():
        assert f"\nCOPY {package} /opt/zketcd/app/{package}\n" in dockerfile
        shutil.copytree(REPOSITORY / package, app / package)
    assert "PYTHONPATH=/opt/zketcd/app" in dockerfile
    assert "\nCOPY deploy/debian/launcher /opt/zketcd/bin/zketcd\n" in dockerfile
    assert '\nENTRYPOINT ["/opt/zketcd/bin/zketcd", "serve"]\n' in dockerfile
    launched = (REPOSITORY / "deploy" / "debian" / "launcher").read_text().splitlines()[-1]
    assert launched == 'exec /opt/zketcd/bin/python3 -P -m zketcd "$@"'

    def run(*words: str) -> str:
        return subprocess.run(
            [sys.executable, "-P", "-m", "zketcd", *words],
            check=True,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={"PYTHONPATH": str(app), "PATH": "/usr/bin:/bin"},
        ).stdout

    commands = re.findall(r"^    ([a-z-]+)(?: |$)", run("--help"), re.MULTILINE)
    assert set(commands) == COMMANDS.keys() - {"bench"}
    for command in ("archive", "serve", "upgrade", "shell", "backup", "export"):
        assert run(command, "--help").startswith(f"usage: zketcd {command}")


def test_the_image_has_the_locks_that_it_can_be_built_with() -> None:
    locks = {name.removeprefix("requirements/") for name in _copied() if name.startswith("requirements/")}
    assert locks == {f"{name}.txt" for name in ("runtime", *OF_IMAGE)}


def test_the_image_installs_hashed_locks_and_does_not_run_as_root() -> None:
    dockerfile = (REPOSITORY / "Dockerfile").read_text()
    assert "--require-hashes" in dockerfile
    user = re.findall(r"^USER (\d+):(\d+)$", dockerfile, re.MULTILINE)
    assert user
    assert "0" not in user[-1]


def test_each_clickhouse_is_given_the_variables_that_its_configuration_reads() -> None:
    configuration = ElementTree.parse(REPOSITORY / "deploy" / "clickhouse" / "zketcd.xml")
    read = {element.attrib["from_env"] for element in configuration.iter() if "from_env" in element.attrib}
    compose = (REPOSITORY / "docker-compose.yml").read_text()
    servers = re.findall(r"^  clickhouse\d:\n((?:    .*\n)+)", compose, re.MULTILINE)
    assert len(servers) == 2
    for server in servers:
        assert read <= set(re.findall(r"^      ([A-Z_]+):", server, re.MULTILINE))
    proxies = [re.findall(r"ZOOKEEPER_\w+: (\w+)", server) for server in servers]
    assert proxies == [["zketcd1", "zketcd2"], ["zketcd2", "zketcd1"]]


def test_prometheus_asks_the_admin_port_of_each_proxy() -> None:
    dockerfile = (REPOSITORY / "Dockerfile").read_text()
    port = re.findall(r"ZKETCD_ADMIN_LISTEN=:(\d+)", dockerfile)
    assert len(port) == 1
    assert port[0] in re.findall(r"\d+", re.findall(r"^EXPOSE (.*)$", dockerfile, re.MULTILINE)[0])
    compose = (REPOSITORY / "docker-compose.yml").read_text()
    proxies = re.findall(r"^  (zketcd\d):\n((?:    .*\n)+)", compose, re.MULTILINE)
    assert len(proxies) == 2
    assert all(f':{port[0]}"' in settings for _, settings in proxies)
    scraped = yaml.safe_load((REPOSITORY / "deploy" / "monitoring" / "prometheus.yml").read_text())
    targets = {job["job_name"]: job["static_configs"][0]["targets"] for job in scraped["scrape_configs"]}
    assert targets["zketcd"] == [f"{name}:{port[0]}" for name, _ in proxies]
    assert targets["etcd"] == re.findall(r"ETCD_ADVERTISE_CLIENT_URLS: http://(\S+)", compose)
