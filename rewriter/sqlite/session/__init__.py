"""Statements about the session itself: `commands` reads SET, BEGIN, LOCK and their kin, `show` reads SHOW."""
