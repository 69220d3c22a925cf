"""The text of a statement before it is compiled.

`literal_lifting` takes literals out and leaves the shape; `parse` gives the shape to sqlglot and keeps its trees;
`tokens` and `keywords` serve statements that sqlglot does not read.
"""
