"""Kubernetes manifests for tests: helm, and the schemas of Kubernetes, which here allow no unknown field.

The schemas are those of the package kubernetes-validate, which would let unknown fields pass.
"""

import functools
import subprocess
from collections.abc import Sequence
from typing import Any

import yaml
from referencing import Registry, Resource

from lab.servers.process import REPOSITORY, BinaryMissing

CHART = REPOSITORY / "deploy" / "helm" / "zketcd"
_HELM = REPOSITORY / ".cache" / "helm" / "helm"  # tools/fetch_helm.sh
Manifest = dict[str, Any]

#: Of the Prometheus operator: Kubernetes has no schema for them.
CUSTOM = {"ServiceMonitor", "PrometheusRule"}


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run helm. Raises BinaryMissing."""
    if not _HELM.exists():
        raise BinaryMissing("helm is not in .cache: make setup-test fetches it (Linux on x86-64)")
    return subprocess.run([_HELM, *arguments], capture_output=True, text=True, check=False)


def template(*values: str) -> subprocess.CompletedProcess[str]:
    """Render the chart with values as `--set` has them, for the release and the namespace `release`."""
    options = [word for value in values for word in ("--set", value)]
    return helm("template", "release", str(CHART), "--namespace", "release", *options)


def load(text: str) -> list[Manifest]:
    """The resources of a file."""
    return [document for document in yaml.safe_load_all(text) if document]


def check(manifest: Manifest, version: str) -> None:
    """Check a resource by the schema of a version of Kubernetes such as 1.37. Raises ValidationError."""
    import jsonschema  # here: it takes a second, and each process of the tests imports this module

    kind, api = manifest["kind"].lower(), manifest["apiVersion"]
    group, _, of_group = api.partition("/")
    name = f"{kind}-{group.partition('.')[0]}-{of_group}" if of_group else f"{kind}-{api}"
    schema = _schema(name, version)
    registry = Resource.from_contents(_schema("_definitions", version)) @ Registry()
    jsonschema.Draft202012Validator(schema, registry=registry).validate(manifest)


@functools.cache
def _schema(name: str, version: str) -> Any:
    from kubernetes_validate import utils  # imports jsonschema

    folder = f"kubernetes-json-schema/v{version}.0-local"
    schema = utils.schema_contents(f"{folder}/{name}.json", version)
    _forbid_unknown_fields(schema)
    return schema


def _forbid_unknown_fields(schema: Any) -> None:
    if isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict):
            schema.setdefault("additionalProperties", False)
        for part in schema.values():
            _forbid_unknown_fields(part)
    elif isinstance(schema, list):
        for part in schema:
            _forbid_unknown_fields(part)


def pod(manifests: Sequence[Manifest], kind: str) -> Manifest:
    """The pod's spec of the only resource of that kind."""
    spec: Manifest = of_kind(manifests, kind)[0]["spec"]["template"]["spec"]
    return spec


def of_kind(manifests: Sequence[Manifest], kind: str) -> list[Manifest]:
    """The resources of a kind."""
    return [manifest for manifest in manifests if manifest["kind"] == kind]
