#!/usr/bin/env bash
# Install the programs that zketcd and its tests run, from Debian's packages.
#
#   tools/install_system_packages.sh etcdctl java jattach c-client chromium haproxy mandoc kdc kerberos-build faketime promtool
#   tools/install_system_packages.sh --programs etcdctl java    # only print the programs that these names stand for
#
# Programs that are there already are left alone. apt is used only by root on a system that has apt. Otherwise the
# script prints what is missing, why it was not installed and how to install it, and exits with 0: the test that needs
# the program reports it again. No service of an installed package is left running or enabled: zketcd and the tests
# start their own servers. tests/test_programs.py compares what the tests look for with what is installed here.
set -euo pipefail

# Debian keeps servers in /usr/sbin, which is not on every user's PATH.
PATH="$PATH:/usr/sbin:/sbin"

# Names of programs on PATH, paths of programs elsewhere, and shared libraries.
programs_of() {
    case $1 in
    etcdctl) echo etcdctl ;;
    java) echo java ;;
    jattach) echo jattach ;;
    c-client) echo libzookeeper_mt.so.2 /usr/lib/zookeeper/bin/cli_mt ;;
    haproxy) echo haproxy ;;
    mandoc) echo mandoc ;;
    kdc) echo krb5kdc kdb5_util kadmin.local kinit ;;
    kerberos-build) echo krb5-config gcc ;;
    chromium) echo chromium ;;
    faketime) echo faketime ;;
    promtool) echo promtool ;;
    *) echo "unknown program: $1" >&2 && exit 2 ;;
    esac
}

packages_of() {
    case $1 in
    etcdctl) echo etcd-client ;;
    java) echo default-jre-headless ;;
    jattach) echo jattach ;; # what a JDK's jcmd does, for the bench; a JRE has none
    c-client) echo zookeeper-bin ;; # which depends on libzookeeper-mt2
    haproxy) echo haproxy ;;
    mandoc) echo mandoc ;;
    kdc) echo krb5-kdc krb5-admin-server krb5-user ;;
    kerberos-build) echo libkrb5-dev gcc libc6-dev python3-dev ;;
    chromium) echo chromium fonts-dejavu-core ;; # without a font pages have no text
    faketime) echo faketime ;; # which depends on libfaketime
    promtool) echo prometheus ;; # with the server, which tests do not run
    esac
}

there() {
    case $1 in
    lib*) ldconfig -p | grep -F "$1" >/dev/null ;;
    *) command -v "$1" >/dev/null ;;
    esac
}

present() {
    local program
    for program in $(programs_of "$1"); do
        there "$program" || return 1
    done
}

if [ "${1:-}" = --programs ]; then
    shift
    for name in "$@"; do
        programs_of "$name"
    done
    exit 0
fi

for name in "$@"; do
    programs_of "$name" >/dev/null # exits for an unknown name
done

service_of() {
    case $1 in
    haproxy) echo haproxy ;;
    prometheus) echo prometheus ;;
    krb5-kdc) echo krb5-kdc ;;
    krb5-admin-server) echo krb5-admin-server ;;
    esac
}

missing=()
for program in "$@"; do
    present "$program" || missing+=("$program")
done
[ ${#missing[@]} -gt 0 ] || exit 0

packages=()
for program in "${missing[@]}"; do
    read -ra wanted <<<"$(packages_of "$program")"
    packages+=("${wanted[@]}")
done

skip() {
    echo "skipped: installing ${missing[*]}: $1" >&2
    echo "         on Debian: apt-get install --no-install-recommends ${packages[*]}" >&2
    exit 0
}

command -v apt-get >/dev/null || skip "this system has no apt-get"
[ "$(id -u)" -eq 0 ] || skip "only root may use apt-get"

apt() {
    DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 "$@"
}

echo "installing ${packages[*]} (apt)" >&2
apt update || skip "apt-get update failed"

candidates=()
for package in "${packages[@]}"; do
    version=$(apt-cache policy "$package" | awk '/Candidate:/ {print $2}')
    if dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed; then
        # Perhaps in use: to upgrade it is its owner's decision.
        echo "skipped: $package: it is installed already, but not what zketcd needs" >&2
    elif [ -z "$version" ] || [ "$version" = "(none)" ]; then
        echo "skipped: $package: this release of Debian does not have it" >&2
    else
        candidates+=("$package")
    fi
done
[ ${#candidates[@]} -gt 0 ] || exit 0

# Maintainer scripts ask policy-rc.d whether they may start a service; 101 forbids it. Where the machine has a policy
# of its own that stays, and what it let start is stopped below.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi

# Debian's packages may come with a question about configuration files: keep what is there.
apt install --yes --no-install-recommends -o Dpkg::Options::=--force-confold -o Dpkg::Use-Pty=0 \
    "${candidates[@]}" >&2 || skip "apt-get install failed"

for package in "${candidates[@]}"; do
    service=$(service_of "$package")
    if [ -n "$service" ] && [ -e "/etc/init.d/$service" ]; then
        service "$service" stop >/dev/null 2>&1 || true # not running: nothing to stop
        update-rc.d "$service" disable >/dev/null 2>&1 || true
    fi
done
