"""The table of results, step by step."""
