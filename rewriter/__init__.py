"""SQL in, plan out. Pure: no I/O, no clock, no driver.

`scan` classifies every statement and lets ordinary SQL pass. `grammar` reads statements about queues into nodes,
`plans` makes plans of them for the queues that there are. `text` is MySQL's lexis.
"""
