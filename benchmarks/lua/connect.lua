-- One event: connect, SELECT 1, quit. By libmariadb, so that the client itself costs as little as it can.
function thread_init()
   driver = sysbench.sql.driver()
end

function event()
   local connection = driver:connect()
   connection:query("SELECT 1")
   connection:disconnect()
end
