"""The pipeline's small Spark serves here as well."""

from tests.pipeline.conftest import spark as spark
