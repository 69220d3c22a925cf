"""Conversion of values between the database, Arrow and Spark: exact, or an error.

`arrow` converts rows to record batches, `literals` converts Arrow columns to SQL; they decide which types fit, and so
does `fitting`.
"""
