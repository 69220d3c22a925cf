"""INSERT, REPLACE, UPDATE and DELETE compiled.

`column_value` stores a value in a column as MySQL would: converted, checked, with its errors. `assignments` are the SET
lists.
"""
