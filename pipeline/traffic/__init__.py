"""Traffic: what clients wrote and when, from zketcd's log or ZooKeeper's, and what that shows.

table.py        the table: one row a request. Only declarations; arrow.py has its batches.
names.py        ZooKeeper's names of operations, modes and results.
requests.py     a request of zketcd's log as a row, as far as the request alone says it.
outcomes.py     the same in a replay, with zxids, results, and the paths that were really made.
transactions.py a transaction of ZooKeeper's log as a row.
changes.py      the table of changes, one row a change of a znode, from a replay.
budgets.py      what budgets would have refused.
clickhouse.py   what a path means to ClickHouse's replicated tables.
flat.py         rows for questions: one an operation, and one a request.
views.py        the questions, in SQL that Spark and SQLite understand alike.
database.py     the views on SQLite, in this process.
report.py       the answers as one document: text, JSON, HTML.
plots.py        the answers as figures.

All but plots.py and database.py is pure. Reading the logs is done by pipeline.etcd.log and pipeline.sources.
"""
