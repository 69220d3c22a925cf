"""SQLite as a database for many sessions: one writer at a time, readers beside it.

`sqlite` opens the file; `writer_gate` says whose turn it is to write; `batch_writer` commits the autocommit writes of
many sessions together. `connection` is one connection in its thread, whose work `task_thread` hands out.
"""
