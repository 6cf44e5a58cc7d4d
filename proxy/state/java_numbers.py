"""Numbers as Java reads them: ZooKeeper does so in the ids of ACLs, and in quotas."""

import re
from functools import partial
from typing import Final

#: A decimal digit of any script, as a part of a pattern. Java looks at UTF-16 units, so none is beyond U+FFFF
#: (Character.digit); and which ones are there, versions of Python disagree about.
DIGIT: Final = r"[^\D\U00010000-\U0010FFFF]"


def _read(number: re.Pattern[str], text: str) -> int | None:
    match = number.fullmatch(text)
    return None if match is None else int(f"{match[1]}0{match[2]}")


def _number_of(digits: int) -> re.Pattern[str]:
    """With at most as many digits as can be used: int() raises for very many.

    The zeros are taken once: a client may send a megabyte of them.
    """
    return re.compile(rf"([+-]?)(?={DIGIT})0*+({DIGIT}{{0,{digits}}})")


#: What Integer.parseInt accepts, and some larger ones; None for another text.
read_integer: Final = partial(_read, _number_of(10))
#: What Long.parseLong accepts, and some larger ones; None for another text.
read_long: Final = partial(_read, _number_of(19))
