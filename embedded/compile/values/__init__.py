"""Values: MySQL's types, and how SQLite stores a value of each.

`types` are the types, `store` converts a value for a column, `temporal` and `wide_decimal` are the forms of dates and
of long decimals.
"""
