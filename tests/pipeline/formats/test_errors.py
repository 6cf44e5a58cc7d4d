"""Errors between processes."""

import pickle

from pipeline.formats.errors import BadFile
from pipeline.formats.log import BadSum


def test_errors_travel_between_processes() -> None:
    for error in (BadFile("f", 3, "is bad"), BadSum("f", 3, "is bad")):
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy)) == (type(error), "f, byte 3: is bad")
    assert str(BadFile("f", None, "is bad")) == "f: is bad"
