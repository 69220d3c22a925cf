"""What SQL calls while it runs: MySQL's functions in Python, where SQLite lacks them."""
