"""`made(Kind, fields)`: a NamedTuple of a tuple of all its fields, for hot paths.

`Kind(...)` goes through a function written in Python, this does not.
"""

made = tuple.__new__
