"""Expressions compiled: every value with the type that MySQL gives it.

`compiler` takes a node of sqlglot's tree to a `typed` value; `operators`, `comparison`, `predicates`, `calls`,
`functions*`, `dates` and `aggregates` each compile a part of the language. `scope` resolves names.
"""
