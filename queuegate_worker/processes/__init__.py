"""Worker processes below one parent, for the command.

The `supervisor` starts `child` processes, replaces those that end, and ends them in order. It serves their `health`.
"""
