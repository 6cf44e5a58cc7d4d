"""Distinguished names as Java's X500Principal writes and reads them: the ids of x509."""

import re

from proxy.state.auth.der import Attribute, Name
from proxy.state.java_numbers import DIGIT

# Types that X500Principal.getName() (RFC 2253) names by a keyword; others are written as OID and hex.
_WORDS = {
    "2.5.4.3": "CN",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.6": "C",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
# Further keywords that Java reads (sun.security.x509.AVAKeyword).
_READ = frozenset(
    (
        *_WORDS.values(),
        *("S", "T", "IP", "DNQUALIFIER", "DNQ", "SURNAME", "GIVENNAME", "INITIALS", "GENERATION"),
        *("EMAIL", "EMAILADDRESS", "SERIALNUMBER"),
    )
)
# Types of strings that are written as text, and their encodings: UTF8; Printable, T61, IA5, General; BMP.
# These are JDK 17.0.21's; earlier ones (17.0.15) read the bytes of all six as UTF-8.
_TEXT = {0x0C: "utf-8", **dict.fromkeys((0x13, 0x14, 0x16, 0x1B), "latin-1"), 0x1E: "utf-16-be"}
_ESCAPED = re.compile(r'([,=+<>#;"\\])')
_PADDING = re.compile(r"^[ \r]+|(?<![ \r])[ \r]++$")
_ARC = f"(?:0|[1-9]{DIGIT}*)"
_OID = re.compile(rf"(?:OID\.)?(?:[01]\.[1-3]?{DIGIT}|2\.{_ARC})(?:\.{_ARC})*+", re.IGNORECASE)


def java_name(name: Name) -> str:
    """A name as X500Principal.getName() returns it: the last part first (AVA.toRFC2253String)."""
    return ",".join("+".join(map(_text_of, part)) for part in reversed(name))


def _text_of(attribute: Attribute) -> str:
    word = _WORDS.get(attribute.oid)
    encoding = _TEXT.get(attribute.tag)
    if word is None or encoding is None:
        return f"{word or attribute.oid}=#{attribute.der.hex()}"
    text = _ESCAPED.sub(r"\\\1", attribute.value.decode(encoding, "replace")).replace("\0", "\\00")
    return f"{word}=" + _PADDING.sub(lambda found: "".join([f"\\{blank}" for blank in found[0]]), text)


def is_name(text: str) -> bool:
    """Whether `new X500Principal(text)` accepts it (X500Name.parseDN); too long texts are refused."""
    if len(text) > _LONGEST:
        return False
    return not text or all(_is_pair(pair) for part in _split(text, ",;") for pair in _split(part, "+"))


# Characters; reading a megabyte of them would block the proxy for most of a second.
_LONGEST = 1 << 14
_MARK = re.compile(r'\\.|["+,;]', re.S)


def _split(text: str, separators: str) -> list[str]:
    """The parts between separators that are neither quoted nor escaped."""
    parts = []
    start = 0
    quoted = False
    for found in _MARK.finditer(text):
        mark = found[0]
        if mark == '"':
            quoted = not quoted
        elif mark in separators and not quoted:
            parts.append(text[start : found.start()])
            start = found.end()
    parts.append(text[start:])
    return parts


# A value may contain the characters of AVA.escapedDefault only escaped.
_VALUE = re.compile(r'(?:\\(?:[,=+<>#;"\\\s]|[0-9a-fA-F]{2})|[^\\",+<>;]++)*+', re.S)
_QUOTED = re.compile(r'"(?:\\(?:[,=+<>#;"\\\s]|[0-9a-fA-F]{2})|[^\\"]++)*+"\s*', re.S)
_HEX = re.compile(r"#(?:[0-9a-fA-F]{2})++\s*")


def _is_pair(pair: str) -> bool:
    word, equals, value = pair.partition("=")
    word = word.strip()
    if not equals or not (word.upper() in _READ or _OID.fullmatch(word)):
        return False
    value = value.lstrip(" \n")
    if value.startswith("#"):
        return _HEX.fullmatch(value) is not None
    return (_QUOTED if value.startswith('"') else _VALUE).fullmatch(value) is not None
