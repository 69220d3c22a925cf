"""Leases that are watched alongside delivery: `lease_alarms`, those that last for too long, and `expired_leases`, those
of results that have ended, whose end is recorded in the history.

This room is below delivery, which reports what was leased and what was settled. No await here.
"""
