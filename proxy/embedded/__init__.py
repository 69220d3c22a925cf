"""What a MySQL server would answer, given by the embedded SQLite backend."""
