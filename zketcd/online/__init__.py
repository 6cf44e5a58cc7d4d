"""Commands that act on the tree as a client of a running proxy, under the caller's identities.

main     create, set, delete, rmr, acl, shell
options  their command lines
nodes    requests about nodes, of which commands and the shell are made
shell    the interactive one; quoting its words
"""
