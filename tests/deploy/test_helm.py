"""The Helm chart: helm's own checks, Kubernetes' schemas, and that it says what the server understands."""

import ipaddress
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.servers.manifests import CHART, CUSTOM, Manifest, check, helm, load, of_kind, pod, template
from proxy.options import etcd as etcd_options
from proxy.version import VERSION
from tests.deploy.proxies import (
    check_grace,
    check_ports,
    check_probes,
    check_security,
    configuration,
    of_tool,
)

pytestmark = pytest.mark.real

REPOSITORY = Path(__file__).resolve().parents[2]
SIDECAR = REPOSITORY / "deploy" / "kubernetes" / "clickhouse-sidecar.yaml"
MONITORING = REPOSITORY / "deploy" / "monitoring"
_ETCD = "etcd.endpoints={https://etcd-0:2379,https://etcd-1:2379}"
# Oldest and newest version of Kubernetes that the chart is checked for.
_VERSIONS = ("1.25", "1.37")
_VALUES: dict[str, tuple[str, ...]] = {
    "plain": (_ETCD,),
    "everything": (
        _ETCD,
        "etcd.tls.secretName=etcd",
        "etcd.auth.secretName=user",
        "tls.secretName=clients",
        "tls.listen=only",
        "proxyProtocol.mode=require",
        "proxyProtocol.from={10.0.0.0/24,10.0.1.7}",
        "options.tick-time=3000",
        "options.snapshot-log-bytes=67108864",
        "options.enforce-quota=true",
        "options.audit-log=-",
        "extraEnv[0].name=ZKETCD_SUPER_DIGEST,extraEnv[0].value=super:D/InIHSb7yEEbrWz8b9l71RjZJU=",
        "service.type=LoadBalancer",
        "service.externalTrafficPolicy=Local",
        "service.loadBalancerSourceRanges={10.0.0.0/8}",
        "clickhouse.configMap=true",
        "networkPolicy.clients[0].podSelector.matchLabels.app=clickhouse",
        "imagePullSecrets[0].name=registry",
        "podLabels.team=data",
        "podAnnotations.note=text",
        "nodeSelector.disk=fast",
        "tolerations[0].key=dedicated",
        "priorityClassName=high",
        "backup.enabled=true",
        "backup.claimName=backups",
        "monitoring.serviceMonitor.enabled=true",
        "monitoring.prometheusRule.enabled=true",
        "monitoring.prometheusRule.runbooks=https://wiki/zketcd/",
        "monitoring.dashboard.enabled=true",
    ),
    "little": (
        _ETCD,
        "etcd.tls.secretName=etcd",
        "etcd.tls.clientCertificate=false",
        "tls.secretName=clients",
        "tls.clientAuth=none",
        "podDisruptionBudget.maxUnavailable=",
        "serviceAccount.create=false",
        "topologyKeys=null",
        "fullnameOverride=zk",
    ),
}


def _rendered(name: str) -> list[Manifest]:
    made = template(*_VALUES[name])
    assert made.returncode == 0, made.stderr
    return load(made.stdout)


@pytest.fixture(autouse=True)
def _secrets_are_mounted_only_in_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(etcd_options, "read_password", str)


@pytest.fixture(scope="module", params=_VALUES)
def manifests(request: pytest.FixtureRequest) -> list[Manifest]:
    """The chart with each set of values."""
    return _rendered(request.param)


@pytest.fixture(scope="module")
def everything() -> list[Manifest]:
    """The chart with all that it can make."""
    return _rendered("everything")


def _container(manifests: list[Manifest]) -> tuple[Any, Manifest]:
    """The specification of the proxies' pods, and their one container."""
    spec = pod(manifests, "Deployment")
    (container,) = spec["containers"]
    return spec, container


@pytest.mark.parametrize("values", _VALUES.values(), ids=_VALUES)
def test_helm_finds_nothing_to_complain_of(values: tuple[str, ...]) -> None:
    options = [word for value in values for word in ("--set", value)]
    linted = helm("lint", "--strict", str(CHART), *options)
    assert linted.returncode == 0, linted.stdout
    assert not {"[ERROR]", "[WARNING]"} & set(linted.stdout.split())


@pytest.mark.parametrize("version", _VERSIONS)
def test_every_resource_fits_the_schemas_of_kubernetes(manifests: list[Manifest], version: str) -> None:
    checked = [manifest for manifest in manifests if manifest["kind"] not in CUSTOM]
    assert {"Deployment", "Service"} <= {manifest["kind"] for manifest in checked}
    for manifest in checked:
        check(manifest, version)


def test_the_schemas_refuse_what_kubernetes_does_not_know() -> None:
    from jsonschema import ValidationError  # slow: see `check`

    manifests = _rendered("everything")
    _, container = _container(manifests)
    container["readynessProbe"] = container.pop("readinessProbe")
    with pytest.raises(ValidationError, match="readynessProbe"):
        check(of_kind(manifests, "Deployment")[0], _VERSIONS[-1])


def test_the_proxy_is_started_as_it_understands(manifests: list[Manifest]) -> None:
    spec, container = _container(manifests)
    config = check_ports(container)
    assert config.etcd == ("https://etcd-0:2379", "https://etcd-1:2379")
    check_probes(container, {"startupProbe": "/live", "livenessProbe": "/live", "readinessProbe": "/ready"})
    check_security(spec, container)
    command, seconds = container["lifecycle"]["preStop"]["exec"]["command"]
    assert command == "sleep"
    check_grace(spec, int(seconds))


def test_values_become_options(everything: list[Manifest]) -> None:
    _, container = _container(everything)
    config = configuration(container)
    assert (config.tick_time, config.snapshot_log_bytes) == (3000, 64 << 20)
    assert (config.enforce_quota, config.audit_log) == (True, "-")
    assert (config.tls.listen, config.proxy_protocol.mode) == ("only", "require")
    assert config.proxy_protocol.balancers == tuple(map(ipaddress.ip_network, ("10.0.0.0/24", "10.0.1.7/32")))
    names = [variable["name"] for variable in container["env"]]
    assert names[-4:] == ["ZKETCD_ETCD_USER", "ZKETCD_ETCD_PASSWORD_FILE", "POD_IP", "ZKETCD_SUPER_DIGEST"]


def test_numbers_of_a_file_of_values_stay_as_they_are() -> None:
    """0.5 became 0, which turns the reserve off."""
    numbers = 'options={"tick-time": 2000000, "etcd-reserve": 0.5}'
    made = helm("template", "release", str(CHART), "--set", _ETCD, "--set-json", numbers)
    _, container = _container(load(made.stdout))
    assert container["args"][-2:] == ["--etcd-reserve=0.5", "--tick-time=2000000"]


def test_files_lie_in_secrets_that_are_mounted(manifests: list[Manifest]) -> None:
    spec, container = _container(manifests)
    config = configuration(container)
    access = config.etcd_access
    of_etcd = (access.ca, access.cert, access.key, access.password_file)
    files = [Path(file) for file in (*of_etcd, *config.tls.files) if file]
    mounts = container.get("volumeMounts", [])
    mounted = {mount["mountPath"]: mount["name"] for mount in mounts}
    volumes = {volume["name"]: volume["secret"]["secretName"] for volume in spec.get("volumes", [])}
    assert set(mounted.values()) == set(volumes)
    assert {str(file.parent) for file in files} == set(mounted)
    assert {file.name for file in files} <= {"ca.crt", "tls.crt", "tls.key", "password"}
    # A renewed secret is not seen through subPath.
    assert not [mount for mount in mounts if "subPath" in mount]


def test_everything_selects_the_proxies(everything: list[Manifest]) -> None:
    deployment = of_kind(everything, "Deployment")[0]["spec"]
    template = deployment["template"]
    services = of_kind(everything, "Service")
    policy = of_kind(everything, "NetworkPolicy")[0]["spec"]
    selectors = [
        deployment["selector"]["matchLabels"],
        of_kind(everything, "PodDisruptionBudget")[0]["spec"]["selector"]["matchLabels"],
        policy["podSelector"]["matchLabels"],
        *(service["spec"]["selector"] for service in services),
        *(spread["labelSelector"]["matchLabels"] for spread in template["spec"]["topologySpreadConstraints"]),
    ]
    assert len(selectors) == 8
    for selector in selectors:
        assert selector
        assert selector.items() <= template["metadata"]["labels"].items()
    names = {port["name"] for port in template["spec"]["containers"][0]["ports"]}
    for service in services:
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= names
    assert {rule["ports"][0]["port"] for rule in policy["ingress"]} == names
    config = configuration(template["spec"]["containers"][0])
    assert (config.peer_listen, config.peer_advertise) == (("", 2191), ("$(POD_IP)", 2191))
    for address in ("10.0.0.7", "fd00::7"):
        text = json.dumps(template["spec"]["containers"][0]).replace("$(POD_IP)", address)
        assert configuration(json.loads(text)).peer_advertise == (address, 2191)
    assert policy["ingress"][-1]["from"] == [{"podSelector": policy["podSelector"]}]
    # Only clients come by the load balancer.
    specs = {service["metadata"]["name"]: service["spec"] for service in services}
    assert specs["release-zketcd"]["type"] == "LoadBalancer"
    assert [port["name"] for port in specs["release-zketcd"]["ports"]] == ["client"]
    assert specs["release-zketcd-admin"]["clusterIP"] == "None"
    headless = specs["release-zketcd-headless"]  # for SRV records of pods that are ready
    assert headless["clusterIP"] == "None"
    assert "publishNotReadyAddresses" not in headless
    assert [port["name"] for port in headless["ports"]] == ["client"]


@pytest.mark.parametrize(
    ("values", "port"),
    [((), 2191), (("peerPort=3000",), 3000), (("replicas=1",), None), (("replicas=5", "peerPort=0"), None)],
)
def test_several_replicas_append_together(values: tuple[str, ...], port: int | None) -> None:
    made = load(template(_ETCD, *values).stdout)
    container = of_kind(made, "Deployment")[0]["spec"]["template"]["spec"]["containers"][0]
    config = configuration(container)
    given = [("", port), ("$(POD_IP)", port)] if port else [None, None]
    assert [config.peer_listen, config.peer_advertise] == given
    named = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert named.get("peer") == port
    rules = of_kind(made, "NetworkPolicy")[0]["spec"]["ingress"]
    assert [rule["ports"][0]["port"] for rule in rules] == ["client", "admin", *(["peer"] if port else [])]
    assert any(each["name"] == "POD_IP" for each in container.get("env") or []) is bool(port)


def test_an_empty_list_of_peers_allows_no_pod() -> None:
    made = template(_ETCD, "networkPolicy.clients=null", "networkPolicy.admin=null", "replicas=1")
    assert of_kind(load(made.stdout), "NetworkPolicy")[0]["spec"]["ingress"] == []


def _file(manifests: list[Manifest], name: str) -> str:
    """A file in one of the ConfigMaps."""
    (content,) = [made["data"][name] for made in of_kind(manifests, "ConfigMap") if name in made["data"]]
    assert isinstance(content, str)
    return content


def test_prometheus_and_grafana_get_what_lies_in_monitoring(everything: list[Manifest]) -> None:
    rules = of_kind(everything, "PrometheusRule")[0]["spec"]
    alerts = (MONITORING / "alerts.yml").read_text()
    assert rules == yaml.safe_load(alerts.replace("runbook_url: ", "runbook_url: https://wiki/zketcd/"))
    assert json.loads(_file(everything, "zketcd.json")) == json.loads(
        (MONITORING / "dashboard.json").read_text()
    )
    monitor = of_kind(everything, "ServiceMonitor")[0]["spec"]
    wanted = monitor["selector"]["matchLabels"]
    chosen = [
        service
        for service in of_kind(everything, "Service")
        if wanted.items() <= service["metadata"]["labels"].items()
    ]
    assert [service["metadata"]["name"] for service in chosen] == ["release-zketcd-admin"]
    (endpoint,) = monitor["endpoints"]
    assert endpoint["port"] == chosen[0]["spec"]["ports"][0]["name"]
    # alerts.yml expects this job.
    assert chosen[0]["metadata"]["labels"][monitor["jobLabel"]] == "zketcd"


def test_the_backup_is_started_as_the_command_understands(everything: list[Manifest]) -> None:
    (job,) = [each for each in everything if each["kind"] == "CronJob"]
    started = job["spec"]["jobTemplate"]["spec"]
    assert started["activeDeadlineSeconds"] > 3600  # else one that hangs would be the last
    spec = started["template"]["spec"]
    (container,) = spec["containers"]
    assert container["command"][1:] == ["-m", "zketcd"]
    given = of_tool(container, container["args"])
    assert (container["args"][0], given.keep, given.folder) == ("backup", 7, Path("/backup"))
    mounted = {each["mountPath"] for each in container["volumeMounts"]}
    files = (given.etcd_ca, given.etcd_password_file)
    assert {str(Path(file).parent) for file in files} == mounted - {"/backup", "/tmp"}
    assert container["env"] == _container(everything)[1]["env"][:-2]  # but for POD_IP and extraEnv


def test_clickhouse_is_sent_to_the_service(everything: list[Manifest]) -> None:
    text = _file(everything, "zketcd.xml")
    assert "<host>release-zketcd.release.svc</host>" in text
    assert "<secure>1</secure>" in text  # the port takes only TLS


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ((), "etcd.endpoints is empty"),
        ((_ETCD, "proxyProtocol.mode=accept"), "proxyProtocol.from is empty"),
        ((_ETCD, "proxyProtocol.mode=always"), "/proxyProtocol/mode"),
        ((_ETCD, "backup.enabled=true"), "backup.claimName is empty"),
        ((_ETCD, "replicas=two"), "/replicas"),
        ((_ETCD, "replica=2"), "'replica' not allowed"),
        ((_ETCD, "etcd.endpoint=http://etcd:2379"), "'endpoint' not allowed"),
        (("etcd.endpoints={http://etcd:2379/path}",), "/etcd/endpoints/0"),
        ((_ETCD, "etcd.prefix=tree"), "/etcd/prefix"),
        ((_ETCD, "options.listen=0.0.0.0:1"), "'listen'"),
        ((_ETCD, "options.admin-tls=on"), "'admin-tls'"),  # no probe would find the proxy alive
        ((_ETCD, "options.Tick=1"), "'Tick'"),
        ((_ETCD, "tls.clientAuth=maybe"), "/tls/clientAuth"),
        ((_ETCD, "monitoring.prometheusRule.runbooks=https://wiki"), "/monitoring/prometheusRule/runbooks"),
        ((_ETCD, "terminationGracePeriodSeconds=16"), "16: a proxy needs preStopSeconds (5) and up to 12 s"),
    ],
)
def test_wrong_values_are_refused_by_their_name(values: tuple[str, ...], said: str) -> None:
    made = template(*values)
    assert made.returncode != 0
    assert said in made.stderr
    assert made.stdout == ""


def _paths(schema: Any, values: Any, path: str = "") -> tuple[set[str], set[str]]:
    """The names in the schema and in the values, with what they are in."""
    if schema.get("additionalProperties") is not False:
        return set(), set()
    named = {f"{path}{name}" for name in schema["properties"]}
    given = {f"{path}{name}" for name in values}
    for name in set(schema["properties"]) & set(values):
        inner = _paths(schema["properties"][name], values[name], f"{path}{name}.")
        named |= inner[0]
        given |= inner[1]
    return named, given


def test_values_and_their_schema_have_the_same_names() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    named, given = _paths(schema, values)
    assert len(given) > 50
    assert named - {"global"} == given


def test_options_of_the_chart_itself_cannot_be_given_again() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    reserved = set(schema["properties"]["options"]["propertyNames"]["not"]["enum"])
    helpers = (CHART / "templates" / "_helpers.tpl").read_text()
    args = {line.partition("=")[0][4:] for line in helpers.splitlines() if line.startswith("- --")}
    variables = re.findall(r"^- name: ZKETCD_(\w+)", helpers, re.MULTILINE)
    given = args | {each.lower().replace("_", "-") for each in variables}
    # The first excludes --etcd-password-file; probes ask by HTTP.
    assert reserved == given | {"etcd-password", "admin-tls"}
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == VERSION


def test_plain_manifests_are_what_the_chart_makes(tmp_path: Path) -> None:
    chart = load(template(_ETCD).stdout)  # first, so that a missing helm is reported
    subprocess.run([sys.executable, "tools/make_manifests.py", str(tmp_path)], cwd=REPOSITORY, check=True)
    plain, monitoring = (load((tmp_path / name).read_text()) for name in ("zketcd.yaml", "monitoring.yaml"))
    assert [made["kind"] for made in plain] == [made["kind"] for made in chart]
    assert {made["kind"] for made in monitoring} == {"ServiceMonitor", "PrometheusRule"}


def test_a_sidecar_has_the_same_image() -> None:
    images = {
        pod(load(template(_ETCD).stdout), "Deployment")["containers"][0]["image"],
        pod(load(SIDECAR.read_text()), "StatefulSet")["initContainers"][0]["image"],
    }
    assert len(images) == 1
