"""The tables of the embedded database as MySQL knows them: defined, altered and kept.

`definitions` carries out CREATE and DROP, `alter_table` ALTER TABLE. `dictionary` keeps what MySQL knows of a table and
SQLite does not, in the same file and transaction. `constraint_errors` says in MySQL's words which constraint a
statement broke.
"""
