"""What the console's addresses answer.

api        which address is answered by what       arguments   what a request says, with limits
trees changes subtrees   the tree, changes to it, files of it
reading    what these share: who may read what
clients cluster traffic recorder   sessions, proxies, and the traffic with its last hour
past past_worker   the archive's answers, and the child that finds them
znodes     znodes as JSON
"""
