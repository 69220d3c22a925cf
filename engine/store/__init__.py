"""The queue's table behind a seam: MessageStore, in the engine's words.

`base` is the contract; `sql_store` fulfils it for every dialect, with the steps in `operations` and the SQL in
`statements`. `catalog` reads which tables are queues, `proxy_directory` which proxies there are.
"""
