"""What the command-line programs of operators have in common.

commands    the names of all commands, and the module behind each
connection  the options that name a tree in etcd, and its client
client      a session of a running server, for commands that act as a client does
output      how results are printed
"""
