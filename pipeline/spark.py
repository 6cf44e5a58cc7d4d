"""The Spark session of the commands: one that spark-submit has prepared, or a local one.

Spark's Python workers are separate processes: they need our interpreter and our modules.
"""

import os
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from pipeline.sources import register

_ROOT = str(Path(__file__).resolve().parents[1])
_UNDER_SPARK_SUBMIT = "PYSPARK_GATEWAY_PORT"  # spark-submit has started the JVM, with settings of its own
# A task that fails is run again, which local[*] alone never does.
_LOCAL = "local[*,4]"
_HERE = "127.0.0.1"


def session(name: str, **settings: str) -> SparkSession:
    """A session with our data sources. `settings` are Spark's, with underscores for dots, for a local one."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    _extend_worker_path()
    os.environ["PYTHONSAFEPATH"] = "1"  # for the workers: the current directory is no place to import from
    builder = SparkSession.builder.appName(name)
    if _UNDER_SPARK_SUBMIT not in os.environ:
        local = {
            "spark_master": os.environ.get("MASTER", _LOCAL),  # a name that spark-submit knows as well
            "spark_ui_enabled": "false",
            "spark_ui_showConsoleProgress": "false",
            "spark_log_level": "FATAL",
            # For some SQL, Spark makes this folder, by default in the working directory. It stays empty.
            "spark_sql_warehouse_dir": str(Path(tempfile.gettempdir(), "zketcd-spark-warehouse")),
            **settings,
        }
        if local["spark_master"] == "local" or local["spark_master"].startswith("local["):
            # The JVM's ports give out data and take objects of Java: else from every user of this machine.
            local.setdefault("spark_authenticate", "true")
            # Else Spark looks up the host's name, and ends if it does not resolve.
            local.setdefault("spark_driver_host", os.environ.setdefault("SPARK_LOCAL_IP", _HERE))
        for setting, value in local.items():
            builder = builder.config(setting.replace("_", "."), value)
    spark = builder.getOrCreate()
    register(spark)
    return spark


def _extend_worker_path() -> None:
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if _ROOT not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join(path for path in (_ROOT, *paths) if path)
