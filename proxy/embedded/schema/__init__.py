"""The tables of the embedded database as MySQL knows them: defined, altered, kept and shown.

`definitions` carries out CREATE and DROP, `alter_table` ALTER TABLE. `dictionary` keeps what MySQL knows of a table and
SQLite does not, in the same file and transaction; `information_schema` shows it.
"""
