"""The queue engine: messages in a table, pushed to receivers. Knows no packets and no client SQL."""
