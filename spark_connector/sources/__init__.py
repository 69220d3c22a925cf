"""What a read is of: one queue or topic, or several, as options list them or a pattern finds them.

`schema` says what columns there are, `batch` and `stream` make the read that the options ask for. For several, `names`
finds out which there are, and `columns` tells of each row where it is from. Each of them is read as it is by itself:
nothing here knows how messages are claimed, tailed or cut into parts.
"""
