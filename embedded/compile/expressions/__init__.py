"""Expressions compiled: every value with the type that MySQL gives it.

`compiler` takes a node of sqlglot's tree to a `typed` value; `operators`, `comparison`, `predicates`, `calls`,
`functions` and its kin, `dates` and `aggregates` each know a part of the language. `scope` resolves names.
"""
