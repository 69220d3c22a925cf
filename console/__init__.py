"""The web console: pages about queues, in a process of its own, which is a MySQL client of a proxy as any other.

`server` runs it on sockets; `routes` has the table of all pages and actions; `endpoints` answers each kind of route,
and reads once for all sessions that show the same page; `guard` and `bounded_http` check every request first. `entry`
logs in (`sessions`, `refused_logins`), `hosts` decides which requests come from the console's own pages. `database`
runs the SQL, with the account of the session. `sampler` fills `rates` from the proxy's counters. `rendering`, `charts`
and `json_form` write what `pages` read; `visits` has the words they share, `settings` what is configured.

How to add a page:

1. What it reads: a frozen dataclass and `async def read_...(visit: Visit)` in a module of `pages`. SQL only by
   `visit.session.database`, with queue_sql() and name_sql() for names and `%s` for values; few statements, whose number
   the module says, each with a LIMIT.
2. Its route: a `Page(...)` in the module's PAGES, with a path and a template for people and an API path for programs.
   A title gives it an entry in the navigation; `refresh=True` is for a part that an open page asks for again and again.
3. Its template in `templates`, which extends `base.html`: headings in order, a label for each field, no script or style
   inside. A part that refreshes itself: `data-refresh="5" hx-get=... hx-trigger="refresh"`, with ids on its links.
4. What it changes: `async def ...(visit) -> Done` and an `Action(...)` in ACTIONS. Its form has the token as a field.
   It names the page of the form, which is shown again with what was filled in; what cannot be undone asks
   first, and a `Done` has an `Undo` where there is one.
5. The lists of `routes`. Tests of the pure parts in tests/console/parts, of the page in tests/console; a row in
   `tests/console/test_every_route.py`, which fails until there is one.
"""
