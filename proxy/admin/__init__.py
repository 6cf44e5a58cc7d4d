"""The interfaces for operators: four-letter words, HTTP commands, metrics.

In which order to read:

subject       the server as seen from here: these facts and no others
state_source  what its state comes from
facts         what operators can learn about it, as plain values
clients       the same about connections, sessions and watches
four_letter   ZooKeeper's words
keeper_words  Keeper's own
commands      ZooKeeper's HTTP commands
changes       commands that change this process or end a session
guard         who may run these
top           the busiest paths, sessions and clients
prometheus    /metrics
feed_stats    what feeds of changes count, for metrics
http          the HTTP server: who asks for which of these
connections   its connections
long_answers  few long answers at once
json_text     JSON as ZooKeeper's server writes it (pure)
"""
