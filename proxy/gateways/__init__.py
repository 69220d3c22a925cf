"""One way in for each kind of client: login, connection to the database and session, put together.

`database_accounts`: the accounts are the MySQL server's, and its login is carried. `proxy_accounts`: the accounts are
the proxy's own, in front of a MySQL server. `embedded`: the accounts are the proxy's own, in front of SQLite.
"""
