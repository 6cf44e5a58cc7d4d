"""A section of a JAAS file, as far as ZooKeeper's server reads it. Pure.

Server {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_bob="secret";
};
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

_DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule"
_KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"
_FLAGS = frozenset(("required", "requisite", "sufficient", "optional"))
_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/ | \#[^\n]*
    | (?P<quoted>"(?:[^"\\\n]|\\.)*") | (?P<mark>[{};=]) | (?P<word>[^\s{};="]+)""",
    re.VERBOSE | re.DOTALL,
)
# As java.io.StreamTokenizer reads them.
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}


class Jaas(NamedTuple):
    """What a section has."""

    passwords: Mapping[str, str]  # of DIGEST-MD5's users
    keytab: str  # of Kerberos; "" for none
    principal: str


def read(text: str, section: str) -> Jaas:
    """One section of a file. Raises ValueError for another form, and for what zketcd does not have."""
    modules = _sections(text)
    if section not in modules:
        found = ", ".join(modules) or "none"
        raise ValueError(f"there is no section {section}; the sections are: {found}")
    passwords: dict[str, str] = {}
    keytab = principal = ""
    for module, options in modules[section]:
        passwords |= {
            key.removeprefix("user_"): value for key, value in options.items() if key.startswith("user_")
        }
        if module == _KERBEROS:
            if options.get("useKeyTab", "").lower() != "true" or "keyTab" not in options:
                raise ValueError(f"section {section}: zketcd needs useKeyTab=true and keyTab")
            if "principal" not in options:
                raise ValueError(f"section {section}: there is no principal")
            keytab, principal = options["keyTab"], options["principal"]
        elif module != _DIGEST:
            raise ValueError(f"section {section}: zketcd has no login module {module}")
    if not passwords and not keytab:
        raise ValueError(f"section {section} has no user_NAME and no keyTab")
    return Jaas(passwords, keytab, principal)


def _sections(text: str) -> dict[str, list[tuple[str, dict[str, str]]]]:
    """Section -> its login modules, each with its options."""
    tokens = _tokens(text)
    found: dict[str, list[tuple[str, dict[str, str]]]] = {}
    for name in tokens:
        _expect(tokens, "{")
        modules = found.setdefault(name, [])
        while (module := _next(tokens)) != "}":
            flag = _next(tokens)
            if flag.lower() not in _FLAGS:
                raise ValueError(f"section {name}: {flag!r} is none of {', '.join(sorted(_FLAGS))}")
            options: dict[str, str] = {}
            while (key := _next(tokens)) != ";":
                if key in ("{", "}", "="):
                    raise ValueError(f"{key!r} is where an option or ';' belongs")
                _expect(tokens, "=")
                options[key] = _next(tokens)
            modules.append((module, options))
        _expect(tokens, ";")
    return found


def _tokens(text: str) -> Iterator[str]:
    position = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            line = text.count("\n", 0, position) + 1
            raise ValueError(f"line {line} is not JAAS: a quote without its partner?")
        position = token.end()
        if token["quoted"] is not None:
            yield re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), token["quoted"][1:-1])
        elif token["mark"] or token["word"]:
            yield token[0]


def _next(tokens: Iterator[str]) -> str:
    found = next(tokens, None)
    if found is None:
        raise ValueError("the file ends within a section")
    return found


def _expect(tokens: Iterator[str], mark: str) -> None:
    found = _next(tokens)
    if found != mark:
        raise ValueError(f"{found!r} is where {mark!r} belongs")
