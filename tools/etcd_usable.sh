#!/usr/bin/env bash
# Whether the first etcd on PATH is one that zketcd may be run on: 3.4.22 or newer, 3.5.6 or newer.
# Older ones lose or corrupt data (etcd's changelogs); proxy/etcd/versions.py holds to the same rule.
set -euo pipefail

command -v etcd >/dev/null || exit 1
version=$(etcd --version | awk '/^etcd Version:/ {print $3}')

at_least() {
    [ "$(printf '%s\n%s\n' "$1" "$version" | sort -V | head -n 1)" = "$1" ]
}

case $version in
3.5.*) at_least 3.5.6 ;;
*) at_least 3.4.22 ;;
esac
