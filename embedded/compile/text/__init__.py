"""The text of a statement before it is compiled.

`literal_lifting` removes literals and returns the shape; `parse` parses the shape with sqlglot, by `dialect`'s rules;
`tokens` and `keywords` are for statements that sqlglot does not parse.
"""
