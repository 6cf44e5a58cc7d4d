"""What every other part of the proxy may use. Where time is an argument, a module is pure.

The process:

environment   clocks and randomness, so that a simulation can replace them
tasks         who holds the tasks of the event loop
last_resort   what an exception that nothing has handled ends: a connection, or the process
child, spawn  child processes, and how they start quickly
descriptors   how many files and sockets may be open, and for whom
memory        huge pages; no garbage collection while much is made
pauses        how late the event loop is
readiness     what systemd is told
probe         places that a simulation sees (pure)
user          who we run as, and where

What is counted and logged:

counters      numbers that only grow (pure)
latency       how many requests there were, and how long they took (pure)
busiest       who came most often lately (pure)
metrics       those that other programs have too (pure)
logs          where messages go, and in which form
log_backlog   a thread writes them, so that nobody waits for a disk
throttled_log  a warning about a lasting problem
controls      characters that no log may get (pure)

Connections:

addresses     addresses of hosts (pure)
names         connections to hosts that have names
ports         listening sockets
inflow        all connections receive a little in each turn of the loop
outflow       what is sent over TLS is encrypted a little in each turn of the loop
tls_pieces    both, for TLS
handshakes    how many TLS handshakes there may be
validity      what is wrong with a certificate of ours

Commands:

stdout        Ctrl-C, and what is printed
usage         wrong usage is reported in one line
rates         budgets as people write them (pure)
libraries     how to add one that is not installed
files         what is written survives a power cut
"""
