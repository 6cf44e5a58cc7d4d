"""ClickHouse with a proxy as its sidecar."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from lab.servers.manifests import Manifest, check, load, of_kind, pod
from tests.deploy.proxies import check_grace, check_ports, check_probes, check_security

REPOSITORY = Path(__file__).resolve().parents[2]
SIDECAR = REPOSITORY / "deploy" / "kubernetes" / "clickhouse-sidecar.yaml"
# Oldest with sidecars (initContainers that stay), and newest.
_VERSIONS = ("1.29", "1.37")


@pytest.fixture
def sidecar() -> list[Manifest]:
    """ClickHouse with its sidecar."""
    return load(SIDECAR.read_text())


@pytest.mark.long
@pytest.mark.parametrize("version", _VERSIONS)
def test_every_resource_fits_the_schemas_of_kubernetes(sidecar: list[Manifest], version: str) -> None:
    for manifest in sidecar:
        check(manifest, version)


def test_the_sidecar_is_started_as_it_understands(sidecar: list[Manifest]) -> None:
    spec = pod(sidecar, "StatefulSet")
    (proxy,) = spec["initContainers"]
    config = check_ports(proxy)
    assert config.host == "127.0.0.1"  # for this pod alone
    check_probes(proxy, {"startupProbe": "/ready", "livenessProbe": "/live"})
    check_security(spec, proxy)
    check_grace(spec, 0)
    # It begins before ClickHouse and ends after it.
    assert proxy["restartPolicy"] == "Always"


def test_clickhouse_uses_its_sidecar(sidecar: list[Manifest]) -> None:
    spec = pod(sidecar, "StatefulSet")
    (clickhouse,) = spec["containers"]
    data = of_kind(sidecar, "ConfigMap")[0]["data"]
    configuration = ElementTree.fromstring(data["zketcd.xml"])
    (proxy,) = spec["initContainers"]
    (listen,) = [arg.partition("=")[2] for arg in proxy["args"] if arg.startswith("--listen=")]
    nodes = configuration.findall("zookeeper/node")
    assert [f"{node.findtext('host')}:{node.findtext('port')}" for node in nodes] == [listen]
    read = {element.attrib["from_env"] for element in configuration.iter() if "from_env" in element.attrib}
    assert read <= {variable["name"] for variable in clickhouse["env"]}
    mount = clickhouse["volumeMounts"][0]
    assert mount["subPath"] in data
    assert Path(mount["mountPath"]).name == mount["subPath"]
    stateful = of_kind(sidecar, "StatefulSet")[0]
    hosts = [host.text for host in configuration.findall("remote_servers/zketcd/shard/replica/host")]
    name, service = stateful["metadata"]["name"], stateful["spec"]["serviceName"]
    assert hosts == [f"{name}-{number}.{service}" for number in range(stateful["spec"]["replicas"])]
    assert service in [made["metadata"]["name"] for made in of_kind(sidecar, "Service")]


def test_images_are_those_of_the_compose_file(sidecar: list[Manifest]) -> None:
    compose = (REPOSITORY / "docker-compose.yml").read_text()
    default = re.findall(r"CLICKHOUSE_IMAGE:-(\S+)}", compose)
    assert [container["image"] for container in pod(sidecar, "StatefulSet")["containers"]] == default
