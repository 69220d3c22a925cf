"""Who a client is: accounts, password plugins, TLS.

Two methods: the client and the MySQL server authenticate each other and the proxy carries their packets
(`carried_login`, `exchange`, `password_bridge`, `account_check`), or the proxy decides by its own accounts
(`own_accounts`, `plugins`, `accounts`). `as_client` is the proxy's own login at the server.

No module here depends on sessions.
"""
