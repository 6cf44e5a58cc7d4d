"""Differential tests: the same scripts on real ZooKeeper and on zketcd, every visible byte compared.

script      what a test does: steps of several sessions, and the requests in them
runner      plays a script on both servers, and stops at the first difference
side        plays it on one of them, and records the answers
compare     whether two answers are alike, with the fields of each reply (fields)
shrink      makes a script that differs smaller
generate    random scripts
cases       fixed scripts, of the *_cases; steps that several need (building)
bad_input   packets that no sane client sends
sasl        two servers with the same SASL

They speak the protocol by `lab.oracle` and share no code with zketcd's codec: the oracle must not share its
mistakes. A few tests use the codec or the proxy, for what they do not compare.
"""
