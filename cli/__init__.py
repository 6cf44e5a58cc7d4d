"""What the command-line programs of operators have in common.

commands    the names of all commands, and the module behind each
connection  the options that name a tree in etcd, and its client
tree        that tree as of now, for commands that look at it
client      a session of a running server, for commands that act as a client does
written     a tree in etcd that a command changes as a client, and a session of a server that serves it
output      how results are printed
"""
