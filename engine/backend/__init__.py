"""Database drivers behind one seam. The only place where a driver is imported.

`mysql` and `sqlite` open connections with the same contract (`base`); `pool` runs their blocking calls in threads.
`url` reads which database it is, `servers` knows which versions can serve.
"""
