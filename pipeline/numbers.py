"""The type of a narrow column. Some rows that have such columns are used without Arrow, which table.py needs."""

from typing import Annotated

#: A number of 32 bits; an int has 64.
Int32 = Annotated[int, 32]
