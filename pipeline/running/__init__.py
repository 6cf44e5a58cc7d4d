"""Two ways of running one description of a job: in this process, or by Spark.

A job says what is done with the rows of each partition of a table (`each`), or how rows are assigned into
buckets by a key and what is done with each bucket (`shuffled`). It does not depend on what runs it.

runner.py    in this process, without Spark or Java; and which of both a command takes
spark.py     by Spark
"""
