"""The sources of a read: one queue or topic, or several, listed in options or found by a pattern.

`schema` finds the sources by name, and returns the columns; `batch` and `stream` create the read for the options. For
several sources, `columns` adds the source of each row. Each source is read as if alone: claiming, tailing and
partitioning are in other packages.
"""
