"""Java's strings in files: CESU-8 read as the characters that it means.

BinaryOutputArchive writes each UTF-16 unit by itself, so a character beyond U+FFFF (only an ACL's id can
hold one) is two encoded surrogates, which BinaryInputArchive itself reads back as two U+FFFD. We read the
character that was meant, and write plain UTF-8, which both ZooKeeper and we read rightly.
Also the numbers in the names of files.
"""

import re

_LARGEST = (1 << 63) - 1


def hexadecimal(digits: str) -> int | None:
    """A zxid of a file's name; None for what Long.parseLong does not take. Nobody writes a sign."""
    if re.fullmatch("[0-9a-fA-F]+", digits) is None:
        return None
    number = int(digits, 16)
    return number if number <= _LARGEST else None


def decode(raw: bytes) -> str:
    """Text of UTF-8 or CESU-8; what is neither becomes U+FFFD, as with Java."""
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
