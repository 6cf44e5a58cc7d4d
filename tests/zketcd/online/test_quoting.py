"""The words of a line are those of a shell, and a completed one is exactly the path of its node."""

import shlex
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cli.client import Client
from zketcd.online.quoting import read, split
from zketcd.online.shell import Shell

_TEXTS = st.text("ab \t'\"\\-#/.\u3000é", max_size=12)
_NAMES = st.text("ab '\"\\-#\u3000é", min_size=1, max_size=6)


class _Session:
    """Has the same names in every folder."""

    def __init__(self, names: list[str]) -> None:
        self._names = names

    def call(self, _request: Any) -> Any:
        return SimpleNamespace(names=self._names)


def _shell(*names: str) -> Shell:
    return Shell(cast(Client, _Session(list(names))))


@given(_TEXTS)
def test_words_are_those_of_a_shell(text: str) -> None:
    text = text.replace("#", "x")
    try:
        expected = shlex.split(text)
    except ValueError as error:
        with pytest.raises(ValueError, match=str(error)):
            split(text)
    else:
        assert split(text) == expected


def test_a_comment_begins_with_a_word() -> None:
    assert split("rmr /a#1 '#2' #3 'x") == ["rmr", "/a#1", "#2"], "bash keeps #1; shlex would say /a"
    assert split("# all") == []


@given(st.sampled_from(["", "'", '"', "/", "'/", '"/', "/x\\ y/"]), _TEXTS, st.sets(_NAMES))
@example("/", "app'", {"app", "app''"})
@example("/", "j\\", {"job", "j\\ob"})
@example('"/', "j\\", {"job", "j\\ob", 'j"b'})
@example("/", "d", {"db 0"})
def test_a_completed_word_is_the_path_of_its_node(start: str, typed: str, names: set[str]) -> None:
    line = f"rmr {start}{typed}"
    before = read(line)
    candidates = _shell(*names).candidates(line)
    for each in candidates:
        assert each.startswith(line), "readline puts in what all candidates begin with"
        whole = each if len(candidates) == 1 else each + before.open
        command, *flags, path = split(whole)
        assert [command, *flags] == before.done
        assert path.startswith(before.last or "")
        assert path.rpartition("/")[2] in names
        assert "/" in path or path[0] != "-"
        if "#" not in line:
            assert shlex.split(whole) == split(whole)


@given(_NAMES, st.integers(0, 6), st.sampled_from(["", "'", '"']), st.sets(_NAMES))
def test_every_name_is_offered(name: str, length: int, quote: str, others: set[str]) -> None:
    begun = name[:length] if not set(name[:length]) & set("'\"\\ #\u3000") else ""
    line = f"rmr {quote}/a/{begun}"
    candidates = _shell(*{name, *others}).candidates(line)
    paths = [split(each if len(candidates) == 1 else each + quote)[-1] for each in candidates]
    assert paths == [f"/a/{each}" for each in sorted({name, *others}) if each.startswith(begun)]
