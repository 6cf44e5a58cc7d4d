"""Documents with marked places, which are filled from results. Pure: text in, text out."""

import re
from collections.abc import Mapping

_MARK = re.compile(r"<!-- results: (?P<name>[a-z-]+) -->\n(?P<body>.*?)<!-- end -->\n", re.DOTALL)
_OPENING = re.compile(r"<!-- results: ")


class BadMark(ValueError):
    """A mark without its end, or of a name that nothing fills."""


def filled(text: str, blocks: Mapping[str, str]) -> str:
    """The text with each marked place filled by the block of its name. Raises BadMark."""

    def fill(mark: re.Match[str]) -> str:
        name = mark["name"]
        if name not in blocks:
            raise BadMark(f"the mark {name!r} is none of {', '.join(blocks)}")
        if _OPENING.search(mark["body"]):
            raise BadMark(f"the mark {name!r} has no end")
        return f"<!-- results: {name} -->\n{blocks[name].strip()}\n<!-- end -->\n"

    found, marks = _MARK.subn(fill, text)
    if marks != len(_OPENING.findall(text)):
        raise BadMark("a mark has no end")
    return found
