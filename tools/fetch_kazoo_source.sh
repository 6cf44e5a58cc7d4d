#!/usr/bin/env bash
# Fetch kazoo's source distribution, which holds its test suite, and unpack it into .cache/ (checked by its hash).
set -euo pipefail

.venv/bin/python -m pip download --quiet --disable-pip-version-check --no-input --no-deps --no-binary kazoo \
    --require-hashes -r requirements/kazoo-source.txt --dest .cache
rm -rf .cache/kazoo-*/
tar -xzf .cache/kazoo-*.tar.gz -C .cache
