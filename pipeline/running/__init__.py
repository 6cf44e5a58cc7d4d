"""Two ways of running one description of a job: in this process, or by Spark.

A job says what is done with the rows of each partition of a table (`each`), or how rows are assigned into
buckets by a key and what is done with each bucket (`shuffled`). It does not depend on what runs it.

table.py     what a job reads: a reader, and about how large the table is
runner.py    what both ways have in common, and which one a command takes
here.py      in this process, without Spark or Java
spark.py     by Spark
buckets.py   rows by the bucket of their key; what lies in them is kept in memory up to a bound, then in files
progress.py  how far a job has come, for people and for scripts
"""
