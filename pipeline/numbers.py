"""The type of a narrow column: table.py needs Arrow, and some rows with such columns are used without it."""

from typing import Annotated

#: A number of 32 bits; an int has 64.
Int32 = Annotated[int, 32]
