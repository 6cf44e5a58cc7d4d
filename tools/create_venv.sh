#!/usr/bin/env bash
# Create .venv with Python 3.11 or newer. PYTHON names the interpreter.
set -euo pipefail

python=${PYTHON:-python3}
if ! command -v "$python" >/dev/null; then
    echo "error: $python was not found; zketcd needs Python 3.11 or newer (PYTHON=/path/to/python make ...)" >&2
    exit 1
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "error: $("$python" --version) is too old; zketcd needs Python 3.11 or newer (PYTHON=... make ...)" >&2
    exit 1
fi

# Debian splits ensurepip, which a new environment needs, into a package of its own.
PYTHON=$python "$(dirname "$0")/install_system_packages.sh" venv
if ! "$python" -c 'import ensurepip' 2>/dev/null; then
    echo "error: $python cannot create an environment: its module ensurepip is missing (python3-venv on Debian)" >&2
    exit 1
fi
"$python" -m venv .venv
