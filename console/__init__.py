"""The console: a page for operators on the admin port, and the JSON that it shows.

    http             routes, statuses, cookies, headers        assets     the files of the page
    api trees changes   what each address answers               guard      who may ask, by headers
    past past_worker   the archive's answers, and the child that finds them
    reading          what these share: who may read what
    listing directories   order, paging, windows                pacing     slices of work in the loop
    tables feeds storage   addresses beside the console: /tree, /history, /changes, /api/v1/storage
    znodes clients   facts as JSON (pure)                       traffic cluster   the same
    subtrees         files of a subtree, copies                 recorder   the history of the traffic
    passwords logins throttle                                   who the operators are
    editing approvals local_session                             changes, by an ordinary session

`docs/console.md` says how to use it and what its addresses answer. Nothing here changes a tree: a change is a
request of a session, as any client's.
"""
