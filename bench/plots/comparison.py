"""Whether two SVGs look alike.

Processors round differently: on another machine the same figure has other last digits, and matplotlib hashes
ids from these. A reader sees neither.
"""

import math
import re
from xml.etree import ElementTree

# In points, as the coordinates are: rounding changes them by millionths, a reader cannot see a hundredth.
TOLERANCE = 0.01

_NUMBER = re.compile(r"(?<![\w#.])-?\d+(?:\.\d+)?")
_HASHED_ID = re.compile(r"\b[pm][0-9a-f]{10}\b")


def look_alike(one: str, other: str) -> bool:
    """Whether both have the same elements and texts, and attributes that differ by rounding at most."""
    if one == other:
        return True
    elements, others = (list(ElementTree.fromstring(_with_counted_ids(svg)).iter()) for svg in (one, other))
    return len(elements) == len(others) and all(map(_element_alike, elements, others))


def _with_counted_ids(svg: str) -> str:
    """The SVG with each hashed id replaced by the number of its first place."""
    ids: dict[str, str] = {}
    return _HASHED_ID.sub(lambda found: ids.setdefault(found.group(), f"id_{len(ids)}"), svg)


def _element_alike(one: ElementTree.Element, other: ElementTree.Element) -> bool:
    return (
        one.tag == other.tag
        and (one.text or "").strip() == (other.text or "").strip()
        and one.attrib.keys() == other.attrib.keys()
        and all(_attribute_alike(value, other.attrib[name]) for name, value in one.attrib.items())
    )


def _attribute_alike(one: str, other: str) -> bool:
    return _NUMBER.sub("", one) == _NUMBER.sub("", other) and all(
        math.isclose(float(number), float(its), rel_tol=0, abs_tol=TOLERANCE)
        for number, its in zip(_NUMBER.findall(one), _NUMBER.findall(other), strict=True)
    )
