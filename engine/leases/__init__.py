"""Leases that are watched beside delivery: `lease_alarms`, those that last for too long, and `lapses`, those of results
that have ended, whose end the history tells.

Lies below delivery, which says what was leased and what was settled. No await here.
"""
