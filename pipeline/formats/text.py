"""Java's strings in files: CESU-8, decoded as the characters that it means.

BinaryOutputArchive encodes each UTF-16 unit separately. So a character beyond U+FFFF (only an ACL's id can
have one) is two encoded surrogates, which BinaryInputArchive itself reads as two U+FFFD. We read the intended
character, and write plain UTF-8, which both ZooKeeper and we read correctly. Also the numbers in the names of
files.
"""

import re

_LARGEST = (1 << 63) - 1


def hexadecimal(digits: str) -> int | None:
    """A zxid of a file's name; None if Long.parseLong refuses it. A sign is not accepted."""
    if re.fullmatch("[0-9a-fA-F]+", digits) is None:
        return None
    number = int(digits, 16)
    return number if number <= _LARGEST else None


def decode(raw: bytes) -> str:
    """Text of UTF-8 or CESU-8; bytes that are neither become U+FFFD, as in Java."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        units = raw.decode("utf-8", "surrogatepass" if _only_surrogates_wrong(raw) else "replace")
        return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _only_surrogates_wrong(raw: bytes) -> bool:
    try:
        raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True
