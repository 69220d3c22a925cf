"""What SQL calls while it runs: MySQL's functions in Python, for those that SQLite lacks. Pure but for the call context."""
