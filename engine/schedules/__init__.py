"""Recurring messages: `ticks` computes when a schedule ticks and how missed ticks are handled, and builds the
messages, `scheduler` sends them, within `bounds`. `schedules` is the interface for the rest of the proxy.

A tick is a guarded UPDATE of the schedule's row and the INSERT of its message, in one transaction: of several proxies
that try, only one changes the row. Between ticks the database is not queried.
"""
