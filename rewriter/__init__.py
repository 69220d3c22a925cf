"""SQL in, plan out. Pure: no I/O, no clock, no driver."""
