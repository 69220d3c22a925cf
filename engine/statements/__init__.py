"""The store's SQL, named statement by statement. `queue` is what the dialects share, each dialect states the rest."""
