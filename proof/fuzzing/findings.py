"""Makes a finding small, and writes it with the command that repeats it."""

import hashlib
from collections.abc import Callable
from pathlib import Path

from proof.fuzzing.target import Finding, Target, finding_of

# Tries of one minimisation: an input of 4,096 bytes needs a few thousand.
_MOST_TRIES = 5000


def minimised(target: Target, data: bytes, signature: str) -> bytes:
    """The smallest input found with the same signature: pieces taken away, then bytes made 0."""

    def same(shorter: bytes) -> bool:
        finding = finding_of(target, shorter)
        return finding is not None and finding.signature == signature

    return _zeroed(_shortened(data, same), same)


def _shortened(data: bytes, same: Callable[[bytes], bool]) -> bytes:
    tries = 0
    size = max(1, len(data) // 2)
    while tries < _MOST_TRIES:
        at, shorter = 0, False
        while at < len(data) and tries < _MOST_TRIES:
            tries += 1
            if same(data[:at] + data[at + size :]):
                data = data[:at] + data[at + size :]
                shorter = True
            else:
                at += size
        if size == 1 and not shorter:
            break
        size = max(1, size // 2)
    return data


def _zeroed(data: bytes, same: Callable[[bytes], bool]) -> bytes:
    for at in range(min(len(data), 256)):
        if data[at] and same(data[:at] + b"\0" + data[at + 1 :]):
            data = data[:at] + b"\0" + data[at + 1 :]
    return data


def write(target: Target, data: bytes, finding: Finding, folder: Path) -> list[str]:
    """Write the input into `folder`; the lines that tell people about it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{target.name}-{hashlib.sha1(data).hexdigest()[:12]}"
    file.write_bytes(data)
    return [
        f"FINDING in {target.name}: {finding.what}",
        f"  {finding.signature}",
        f"  input of {len(data)} bytes: {data[:64].hex()}{'...' if len(data) > 64 else ''}",
        f"  repeat it: python -m proof.fuzzing --targets {target.name} --repeat {file}",
    ]
