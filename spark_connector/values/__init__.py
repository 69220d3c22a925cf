"""Values between the database, Arrow and Spark, exactly or not at all.

`arrow` makes record batches of rows, `literals` makes SQL of Arrow columns; `fitting` and `widening` decide which type
goes into which column.
"""
