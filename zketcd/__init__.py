"""The command `zketcd`: one command for the server, its offline tools, the data pipeline and the bench.

`__main__`: finds the program in `cli.commands` and starts it. `completion`: completion for shells. `manual`:
help, and the parser of what comes before a command.

A program is imported when one of its commands is run, so `zketcd --version` and `zketcd ls` load no Spark.
What a command does, and its options, are the program's.
"""
