"""What the console's addresses answer. Which address is answered by what: console.http.

api        the parts put together, and answers about the proxy and its clients
arguments  what a request says, with limits
trees changes subtrees   the tree, changes to it, files of it
reading    what these share: who may read what
clients cluster traffic recorder   sessions, proxies, and the traffic with its last hour
past past_worker   the archive's answers, and the child that finds them
znodes     znodes as JSON
"""
