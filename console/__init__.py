"""The console: a page for operators on the admin port, and the JSON that it shows.

The rooms, each above those that it imports:

answers    what each address answers
sessions   changes, by an ordinary session
people     who the operators are, and who may ask
walks      order, paging, windows, slices of work

`http` has routes, statuses, cookies and headers, `assets` the files of the page. `tables`, `feeds` and
`storage` are addresses beside the console: /tree, /history, /changes, /api/v1/storage. `main` is the command
`zketcd console-user`.

`docs/console.md` says how to use it and what its addresses answer. Nothing here changes a tree: a change is a
request of a session, as any client's.
"""
