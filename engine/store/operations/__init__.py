"""The steps of the store in SQL: look, lease, release, filter, purge, groups, dead letters.

Each is blocking and runs in a thread, inside one transaction that its caller opened.
"""
