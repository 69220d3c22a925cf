"""Database drivers and the two seams over them. The only place where a driver is imported."""
