"""Write for Kubernetes what is made of other files: the chart's copies of deploy/monitoring, plain manifests.

`make manifests` runs it; tests/deploy/test_helm.py compares. Helm is the one of tools/fetch_helm.sh.
"""

import shutil
import subprocess
from argparse import ArgumentParser
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_CHART = Path("deploy") / "helm" / "zketcd"
_HELM = _ROOT / ".cache" / "helm" / "helm"

_COPIES = ("alerts.yml", "dashboard.json")
#: Plain manifests, each with the values that the chart is given for it.
_PLAIN = {
    "zketcd.yaml": ("etcd.endpoints={http://etcd:2379}",),
    "monitoring.yaml": (
        "etcd.endpoints={http://etcd:2379}",
        "monitoring.serviceMonitor.enabled=true",
        "monitoring.prometheusRule.enabled=true",
    ),
}
_ONLY = {"monitoring.yaml": ("--show-only", "templates/monitoring.yaml")}
_HEAD = """# Made by `make manifests` from deploy/helm/zketcd: change the chart, not this file.
# docs/kubernetes.md says what to set before you apply it.
"""


def make(target: Path) -> None:
    """Write the files below a folder, where they lie in the repository. The chart is the repository's."""
    for name in _COPIES:
        copy = target / _CHART / "files" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_ROOT / "deploy" / "monitoring" / name, copy)
    for name, values in _PLAIN.items():
        command = [str(_HELM), "template", "zketcd", str(_ROOT / _CHART), *_ONLY.get(name, ())]
        for value in values:
            command += ["--set", value]
        made = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        manifest = target / "deploy" / "kubernetes" / name
        manifest.parent.mkdir(parents=True, exist_ok=True)
        manifest.write_text(_HEAD + made)


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=_ROOT, help="where deploy/ is written")
    make(parser.parse_args().folder)
