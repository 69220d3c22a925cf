"""A shop, whose orders are written by tasks."""
