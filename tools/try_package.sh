#!/usr/bin/env bash
# Try the Debian package on the bare Debian that has its Python: install, serve from an embedded etcd, upgrade, remove, purge.
#
#   make package ARGS="--revision 1 --revision 2"
#   tools/try_package.sh build/packages/zketcd_*-1_*.deb build/packages/zketcd_*-2_*.deb
#
# It needs root, debootstrap (apt-get install debootstrap) and a few minutes. The mirror is the one of this machine's
# apt. The root is made in a temporary folder and deleted at the end. tests/test_packages.py does the same in seconds on
# a root that borrows /usr.
set -euo pipefail

[ $# -eq 2 ] || { echo "usage: $0 OLDER.deb NEWER.deb" >&2 && exit 2; }
older=$1 newer=$2
python=$(dpkg-deb --field "$older" Depends | grep -o 'python3\.[0-9]*')
case $python in
    python3.11) release=bookworm ;;
    python3.13) release=trixie ;;
    *) echo "no Debian release has $python, which $older depends on" >&2 && exit 2 ;;
esac
root=$(mktemp -d)
chmod 755 "$root" # mktemp keeps other users out, and so the user zketcd
server=
clean() {
    [ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true
    umount "$root/proc" 2>/dev/null || true
    rm -rf --one-file-system "$root"
}
trap clean EXIT
step() { echo "== $*"; }
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }

step "a bare Debian: $release"
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -n 1)
debootstrap --variant=minbase --include="etcd-server,adduser,$python" "$release" "$root" "$mirror" >"$root.log" 2>&1 ||
    { tail -n 20 "$root.log" >&2 && exit 1; }
rm -f "$root.log"
mount -t proc proc "$root/proc"
cp "$older" "$newer" "$root/tmp"

step "install"
inside dpkg --install "/tmp/$(basename "$older")"
inside zketcd --version

step "serve"
sed -i 's|^etcd = .*|etcd = "embedded"|' "$root/etc/zketcd/zketcd.toml"
# exec: the process that gets the signal below has to be the server.
(exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin setpriv --reuid=zketcd --regid=zketcd --clear-groups \
    zketcd serve --config /etc/zketcd/zketcd.toml --listen 127.0.0.1:21810 --admin-listen none) >"$root/tmp/log" 2>&1 &
server=$!
for _ in $(seq 300); do
    grep '^ready' "$root/tmp/log" && break
    kill -0 "$server" 2>/dev/null || break
    sleep 0.2
done
grep -q '^ready' "$root/tmp/log" || { cat "$root/tmp/log" >&2 && exit 1; }
exec 3<>/dev/tcp/127.0.0.1/21810
printf ruok >&3
[ "$(cat <&3)" = imok ] && echo imok
inside zketcd ls --data-dir /var/lib/zketcd /
kill -TERM "$server"
wait "$server"
echo "exit code 0"
server=

step "upgrade"
inside dpkg --install "/tmp/$(basename "$newer")"
inside zketcd --version
grep '^etcd = "embedded"' "$root/etc/zketcd/zketcd.toml"
ls "$root/var/lib/zketcd"

step "remove, purge"
inside dpkg --remove zketcd
[ ! -e "$root/opt/zketcd" ] && [ -e "$root/etc/zketcd/zketcd.toml" ]
inside dpkg --purge zketcd
[ ! -e "$root/etc/zketcd" ] && ls "$root/var/lib/zketcd"
