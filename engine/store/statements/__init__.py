"""The store's SQL, named statement by statement.

`queue` is what the dialects share; `mysql` and `sqlite` state the rest, in the form of `dialect`.
"""
