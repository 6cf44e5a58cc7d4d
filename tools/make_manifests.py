"""Write plain manifests for Kubernetes, as the Helm chart makes them. `make manifests` runs it.

Helm is the one of tools/fetch_helm.sh.
"""

import subprocess
from argparse import ArgumentParser
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_CHART = "deploy/helm/zketcd"
_HELM = ".cache/helm/helm"
_SERVER = ("--set", "etcd.endpoints={http://etcd:2379}")
_MONITORING = (
    *("--set", "monitoring.serviceMonitor.enabled=true", "--set", "monitoring.prometheusRule.enabled=true"),
    *("--show-only", "templates/monitoring.yaml"),
)
_HEAD = "# docs/kubernetes.md says what to set before you apply this.\n"


def make(target: Path) -> None:
    """Write the files into a folder."""
    target.mkdir(parents=True, exist_ok=True)
    for name, words in {"zketcd.yaml": (), "monitoring.yaml": _MONITORING}.items():
        command = [_HELM, "template", "zketcd", _CHART, *_SERVER, *words]
        made = subprocess.run(command, cwd=_ROOT, check=True, capture_output=True, text=True).stdout
        (target / name).write_text(_HEAD + made)


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    make(parser.parse_args().folder)
