"""What holds for every container of zketcd in a manifest."""

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from ctl.main import parser as ctl_parser
from lab.servers.manifests import Manifest
from proxy import base_server, server
from proxy.admin.changes import Changes
from proxy.admin.commands import Commands
from proxy.admin.facts import Facts
from proxy.admin.four_letter import FourLetterWords
from proxy.admin.http import AdminServer
from proxy.config import Config, parse
from proxy.options.words import KNOWN
from proxy.state.auth.schemes import AuthSchemes
from tests.proxy.admin.subjects import subject_of

REPOSITORY = Path(__file__).resolve().parents[2]
# Both ports of the image, by the names of the manifests.
PORTS = {"client": 2181, "admin": 8080}


def configuration(container: Manifest) -> Config:
    """What the server makes of its arguments and variables."""
    with _inside(container):
        return parse(container["args"])


def of_tool(container: Manifest, arguments: Sequence[str]) -> Any:
    """What `zketcd COMMAND` makes of its arguments in the container (`kubectl exec`)."""
    with _inside(container):
        return ctl_parser(arguments[0]).parse_args(arguments[1:])


@contextlib.contextmanager
def _inside(container: Manifest) -> Iterator[None]:
    """Files count as readable, and variables without a value here have one: they come from secrets."""
    given = {each["name"]: each.get("value", "from-a-secret") for each in container["env"]}
    with mock.patch("os.access", return_value=True), mock.patch.dict(os.environ, given):
        yield


def check_ports(container: Manifest) -> Config:
    """The ports that are named are the server's and the image's, and tools in the container find the tree."""
    config = configuration(container)
    access = config.etcd_access
    tool = of_tool(container, ["sessions"])
    assert (tool.etcd, tool.prefix) == (config.etcd, config.prefix)
    assert (tool.etcd_ca, tool.etcd_cert, tool.etcd_key) == (access.ca, access.cert, access.key)
    named = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert config.admin == ("", named["admin"])  # the kubelet asks from outside of the pod
    assert config.port == named.get("client", config.port)
    assert {"client": config.port, "admin": named["admin"]} == PORTS
    return config


def check_probes(container: Manifest, paths: dict[str, str]) -> None:
    """The probes ask these paths, which the server has, at the admin port."""
    routes = _routes()
    assert {name: probe["httpGet"]["path"] for name, probe in _probes(container).items()} == paths
    for probe in _probes(container).values():
        assert probe["httpGet"]["port"] == "admin"
        assert probe["httpGet"]["path"] in routes
        assert probe["timeoutSeconds"] >= 3


def _probes(container: Manifest) -> dict[str, Any]:
    return {name: value for name, value in container.items() if name.endswith("Probe")}


async def _no_kill(_session: int, _who: str) -> int:
    return 0


def _routes() -> set[str]:
    facts = Facts(subject_of())
    commands = Commands(facts, AuthSchemes())
    changes = Changes(facts.subject, commands.guard, _no_kill)
    admin = AdminServer(facts, commands, changes, FourLetterWords(facts, KNOWN))
    return {resource.canonical for resource in admin._runner.app.router.resources()}


def check_security(pod: Manifest, container: Manifest) -> None:
    """The container's user is `nobody`, may nothing, and writes nowhere: as the image is made."""
    user = re.findall(r"^USER (\d+):(\d+)$", (REPOSITORY / "Dockerfile").read_text(), re.MULTILINE)[-1]
    context = {**pod["securityContext"], **container["securityContext"]}
    assert (str(context["runAsUser"]), str(context["runAsGroup"])) == user
    assert context["runAsNonRoot"] is True
    assert context["readOnlyRootFilesystem"] is True
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    # Variables of a Service called zketcd begin like those of the options.
    assert pod["enableServiceLinks"] is False
    assert set(container["resources"]) == {"requests", "limits"}


def check_grace(pod: Manifest, before: int) -> None:
    """Kubernetes does not kill what still drains; `before`: seconds until the drain begins."""
    drain = server._DRAIN_TIMEOUT + base_server._CLOSE_TIMEOUT
    assert pod["terminationGracePeriodSeconds"] >= before + drain + 5  # the process ends, too
