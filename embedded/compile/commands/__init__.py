"""Statements about the session itself: `session_commands` reads SET, BEGIN, LOCK and their kin, `show` reads SHOW."""
