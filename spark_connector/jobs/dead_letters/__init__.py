"""dead-letters: the content of a dead-letter queue, and the reasons. `job` reads it, `analysis` makes suggestions."""
