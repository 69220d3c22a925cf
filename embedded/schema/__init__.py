"""The tables of the embedded database as MySQL knows them: defined, altered and stored.

`definitions` executes CREATE and DROP, `alter_table` ALTER TABLE. `dictionary` stores what MySQL knows of a table and
SQLite does not, in the same file and transaction. `constraint_errors` reports as MySQL does which constraint a
statement violated.
"""
