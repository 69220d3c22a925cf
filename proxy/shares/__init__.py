"""Fair shares: what one address may take of what all clients share."""
