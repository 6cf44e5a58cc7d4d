"""The table of settings, compared with the settings that ZooKeeper 3.9's own classes name."""

import re
import zipfile

import pytest

from lab.servers.zookeeper import zookeeper_jars
from proxy.config import OPTIONS
from proxy.options.zoo_keys import KEYS, Refuse, meaning

# Named in the jar, but settings of clients, of tools, or of a server embedded in another program.
_NOT_OF_THE_SERVER = {
    "client.secure",
    "clientCnxnSocket",
    "configuration",
    "controllerPort",
    "disableAutoWatchReset",
    "request.timeout",
    "server.principal",
    "server.realm",
}
# Bytes after the tag of each kind of constant but text (the JVM's specification, 4.4).
_SIZES = {
    **dict.fromkeys((7, 8, 16, 19, 20), 2),
    15: 3,
    **dict.fromkeys((3, 4, 9, 10, 11, 12, 17, 18), 4),
    **dict.fromkeys((5, 6), 8),
}


def _texts(content: bytes) -> set[str]:
    """The texts among the constants of a class file."""
    found = set()
    count = int.from_bytes(content[8:10])
    number, at = 1, 10
    while number < count:
        tag = content[at]
        if tag == 1:
            length = int.from_bytes(content[at + 1 : at + 3])
            found.add(content[at + 3 : at + 3 + length].decode(errors="replace"))
            at += 3 + length
        else:
            at += 1 + _SIZES[tag]
        number += 2 if tag in (5, 6) else 1  # long and double count twice
    return found


def settings_of_zookeeper() -> set[str]:
    """System properties of all classes, and names in the class that reads zoo.cfg."""
    named: set[str] = set()
    with zipfile.ZipFile(zookeeper_jars()[-1]) as archive:
        for name in archive.namelist():
            if not name.endswith(".class"):
                continue
            for text in _texts(archive.read(name)):
                if re.fullmatch(r"zookeeper\.[\w.-]*\w", text):
                    named.add(text.removeprefix("zookeeper."))
                elif name.endswith("/QuorumPeerConfig.class") and re.fullmatch(
                    r"(?!org\.)[a-z]\w*(\.[a-zA-Z]\w*)+", text
                ):
                    named.add(text)
                elif name.endswith("/X509Util.class") and re.fullmatch(r"(key|trust)Store\.\w+", text):
                    named.add(f"ssl.{text}")
    return named


@pytest.mark.real
def test_each_setting_of_zookeeper_has_a_meaning_here() -> None:
    known = settings_of_zookeeper()
    assert {"snapCount", "enforceQuota", "autopurge.purgeInterval"} <= known
    assert len(known) > 150
    options = {setting for option in OPTIONS for setting in option.zoo}
    assert {name for name in known - options - _NOT_OF_THE_SERVER if meaning(name) is None} == set()


def test_each_option_that_takes_a_settings_place_exists() -> None:
    instead = {each.unless for each in KEYS.values() if isinstance(each, Refuse) and each.unless}
    assert instead <= {option.dest for option in OPTIONS}


def test_a_setting_means_one_thing() -> None:
    assert not [setting for option in OPTIONS for setting in option.zoo if setting in KEYS]
