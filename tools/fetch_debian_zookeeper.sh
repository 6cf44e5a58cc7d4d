#!/usr/bin/env bash
# Fetch the jars of Debian's ZooKeeper (3.8) into .cache/zookeeper-debian, for tests of what older servers load.
# Nothing is installed: its other jars are those that Spark brings along. Where apt is missing this says so and ends
# well; the tests say so again.
set -euo pipefail

target=.cache/zookeeper-debian
[ ! -e "$target/zookeeper.jar" ] || exit 0

skip() {
    echo "skipped: fetching Debian's ZooKeeper: $1" >&2
    exit 0
}

command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || skip "this system has no apt-get"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fetch() {
    (cd "$folder" && apt-get -qq -o Acquire::Retries=3 -o APT::Sandbox::User="$(id -un)" download libzookeeper-java)
}
if ! fetch 2>/dev/null; then
    [ "$(id -u)" -eq 0 ] || skip "apt's lists are missing, and only root may fetch them"
    apt-get -qq update || skip "apt-get update failed"
    fetch || skip "this release of Debian does not have libzookeeper-java, or cannot be reached"
fi
dpkg-deb -x "$folder"/*.deb "$folder/content"
mkdir -p "$target"
cp -L "$folder"/content/usr/share/java/zookeeper-jute.jar "$folder"/content/usr/share/java/zookeeper.jar "$target"
