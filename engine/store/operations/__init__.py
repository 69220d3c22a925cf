"""The steps of the store in SQL: poll, lease, release, scan, purge, groups, dead letters.

Each is blocking and runs in a thread, inside one transaction that its caller opened.
"""
