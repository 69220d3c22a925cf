"""dead-letters: what is in a dead-letter queue and why. `job` reads, `analysis` says what to do about it."""
