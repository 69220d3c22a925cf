"""SELECT compiled: sources, joins, grouping, set operations, subqueries.

`information_schema` defines the tables that the session fills, `stream_condition` compiles a stream's WHERE alone,
`user_variables` are assignments in a select list.
"""
