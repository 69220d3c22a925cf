"""Statements about the session itself: `session_commands` reads SET, BEGIN, LOCK and similar ones, `show` reads
SHOW."""
