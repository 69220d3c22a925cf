"""Messages that recur: `ticks` says when a schedule ticks and what becomes of missed ticks, `messages` what is sent
then, `scheduler` sends it, within `bounds`. `schedules` is what the rest of the proxy asks.

A tick is a guarded UPDATE of the schedule's row and the INSERT of its message, in one transaction: of several proxies
that try, one changes the row. Between ticks nothing is asked of the database.
"""
