"""The message of a command that fails: one clear line, never a traceback."""

import re
import sys

from pipeline.errors import Failure
from proxy.etcd.model import EtcdError

# The last line of a Python traceback in a message of Spark: the class, with its module unless it is Python's
# own, and its message.
_RAISED = re.compile(
    r"^\s*(?:(?:[a-z_]+\.)+[A-Za-z]+|[A-Z][A-Za-z]*(?:Error|Exception)): (.+)$", re.MULTILINE
)
_OURS = re.compile(r"^\s*(?:pipeline|proxy|schema|codec)\.[\w.]+: (.+)$", re.MULTILINE)
_SPARK = {"pyspark.errors": "PySparkException", "py4j.protocol": "Py4JJavaError"}


def is_expected(error: Exception) -> bool:
    """Whether an error comes from the input or the environment, and not from a defect of our own code."""
    return isinstance(error, (Failure, EtcdError, OSError, ValueError)) or is_of_spark(error)


def is_of_spark(error: Exception) -> bool:
    """Whether Spark raised it. This does not import Spark."""
    modules = {sys.modules.get(name): kind for name, kind in _SPARK.items()}
    return any(module and isinstance(error, getattr(module, kind)) for module, kind in modules.items())


def reason_of(error: Exception) -> str:
    """The message of an error in one line. For an error from Spark's workers, that of the original one."""
    text = str(error)
    if is_of_spark(error):
        for pattern in (_OURS, _RAISED):
            found = pattern.findall(text)
            if found:
                return str(found[-1]).strip()
        return text.splitlines()[0] if text else type(error).__name__
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return " ".join(text.split()) or type(error).__name__
