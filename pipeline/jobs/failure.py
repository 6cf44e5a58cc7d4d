"""How a command fails: with one clear line, never a traceback."""

import re

from pyspark.errors import PySparkException

# The last line of a Python traceback in a message of Spark: the class, with its module unless it is Python's
# own, and what it says.
_RAISED = re.compile(
    r"^\s*(?:(?:[a-z_]+\.)+[A-Za-z]+|[A-Z][A-Za-z]*(?:Error|Exception)): (.+)$", re.MULTILINE
)
_OURS = re.compile(r"^\s*(?:pipeline|proxy|schema|codec)\.[\w.]+: (.+)$", re.MULTILINE)


class Failure(Exception):
    """The command cannot do what it was asked; the message is for the user."""


class Usage(Exception):
    """The command was called wrongly; the message is for the user."""


def reason_of(error: Exception) -> str:
    """What to tell the user of an error. One from Spark's workers is told as they raised it."""
    if not isinstance(error, PySparkException):
        return str(error) or type(error).__name__
    text = str(error)
    for pattern in (_OURS, _RAISED):
        found = pattern.findall(text)
        if found:
            return str(found[-1]).strip()
    return text.splitlines()[0]
