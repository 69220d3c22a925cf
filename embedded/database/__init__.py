"""SQLite as a database for many sessions: one writer at a time, concurrent readers.

`sqlite` opens the file; `writer_gate` decides who may write next; `batch_writer` commits the autocommit writes of many
sessions together. `connection` is one connection in its thread; `task_thread` runs the thread's tasks.
"""
