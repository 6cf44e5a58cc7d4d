#!/usr/bin/env bash
# tools/create_venv.sh [FOLDER]: create .venv, or FOLDER, with Python 3.11 or newer. PYTHON names the interpreter.
set -euo pipefail

python=${PYTHON:-python3}
venv=${1:-.venv}
if ! command -v "$python" >/dev/null; then
    echo "error: $python was not found; zketcd needs Python 3.11 or newer (PYTHON=/path/to/python make ...)" >&2
    exit 1
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "error: $("$python" --version) is too old; zketcd needs Python 3.11 or newer (PYTHON=... make ...)" >&2
    exit 1
fi

if "$python" -c 'import ensurepip' 2>/dev/null; then
    exec "$python" -m venv "$venv"
fi
# Debian's python3 comes without ensurepip, which would install pip.
if ! "$python" tools/fetch_debs.py pip-25.1.1; then
    echo "error: $python cannot create an environment: its module ensurepip is missing (python3-venv on Debian)" >&2
    exit 1
fi
"$python" -m venv --without-pip "$venv"
wheel=$(echo .cache/pip-25.1.1/usr/share/python-wheels/pip-*.whl)
"$venv/bin/python" "$wheel/pip" install --quiet --disable-pip-version-check --no-index "$wheel"
