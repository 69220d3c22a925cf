"""The queue's table behind an interface: MessageStore, in the engine's terms.

`base` is the interface; `sql_store` implements it for every dialect, with the steps in `operations` and the SQL in
`statements`. `catalog` reads which tables are queues, `proxy_directory` which proxies there are.
"""
