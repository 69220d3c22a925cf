"""MySQL SQL to SQLite SQL."""
