"""`new_tuple(Kind, fields)`: a NamedTuple of a tuple of all its fields, for hot paths.

`Kind(...)` goes through a function written in Python, this does not.
"""

new_tuple = tuple.__new__
