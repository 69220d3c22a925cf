"""The tables of the embedded database as MySQL knows them: defined, altered and stored.

`definitions` executes CREATE and DROP, and stores what MySQL knows of a table and SQLite does not in the same
transaction; `alter_table` executes ALTER TABLE. `constraint_errors` reports as MySQL does which constraint a statement
violated.
"""
