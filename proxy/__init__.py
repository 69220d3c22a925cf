"""The MySQL server that clients see, and the composition root."""
