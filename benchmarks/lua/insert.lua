-- One event: one row inserted in a transaction of its own. --table names the table, or the queue.
sysbench.cmdline.options = {
   table = {"Table or queue with a column called payload", "bench_rows"}
}

function thread_init()
   connection = sysbench.sql.driver():connect()
   statement = string.format("INSERT INTO %s (payload) VALUES ('%s')", sysbench.opt.table, string.rep("x", 200))
end

function event()
   connection:query(statement)
end

function thread_done()
   connection:disconnect()
end
