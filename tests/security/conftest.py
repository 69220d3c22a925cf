"""The security suite: injection, escapes, matching in linear time, fair shares, what a name reveals."""
