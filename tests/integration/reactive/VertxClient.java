import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.buffer.Buffer;
import io.vertx.mysqlclient.MySQLConnectOptions;
import io.vertx.mysqlclient.MySQLConnection;
import io.vertx.mysqlclient.MySQLException;
import io.vertx.mysqlclient.SslMode;
import io.vertx.sqlclient.Row;
import io.vertx.sqlclient.RowSet;
import io.vertx.sqlclient.Transaction;
import io.vertx.sqlclient.Tuple;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collector;

/** Vert.x's client. What has parameters is prepared at the server. */
final class VertxClient implements Client {
    private static final Vertx VERTX = Vertx.vertx();
    private final MySQLConnection connection;
    private Transaction transaction;

    VertxClient(Main.Target target) throws Exception {
        MySQLConnectOptions options = new MySQLConnectOptions()
                .setHost(target.host())
                .setPort(target.port())
                .setUser(target.user())
                .setPassword(target.password())
                .setDatabase(target.database())
                .setSslMode(SslMode.DISABLED);
        connection = await(MySQLConnection.connect(VERTX, options));
    }

    @Override
    public List<Object[]> query(String sql, Object... parameters) throws Exception {
        List<Object[]> rows = new ArrayList<>();
        for (Row row : run(sql, parameters)) {
            rows.add(values(row));
        }
        return rows;
    }

    @Override
    public long update(String sql, Object... parameters) throws Exception {
        return run(sql, parameters).rowCount();
    }

    @Override
    public void begin() throws Exception {
        transaction = await(connection.begin());
    }

    @Override
    public void commit() throws Exception {
        await(transaction.commit());
    }

    @Override
    public void rollback() throws Exception {
        await(transaction.rollback());
    }

    @Override
    public Rows stream(String sql) {
        BlockingQueue<Object> came = new LinkedBlockingQueue<>();
        Collector<Row, BlockingQueue<Object>, BlockingQueue<Object>> collector =
                Collector.of(() -> came, (queue, row) -> queue.add(values(row)), (one, other) -> one);
        connection.query(sql).collecting(collector).execute().onFailure(came::add);
        return () -> {
            Object next = came.poll(WAIT_SECONDS, TimeUnit.SECONDS);
            if (next instanceof Throwable error) {
                throw refused(error);
            }
            return (Object[]) next;
        };
    }

    @Override
    public void close() {
        connection.close().toCompletionStage().toCompletableFuture().join();
    }

    private RowSet<Row> run(String sql, Object... parameters) throws Exception {
        return await(parameters.length == 0
                ? connection.query(sql).execute()
                : connection.preparedQuery(sql).execute(Tuple.from(parameters)));
    }

    private static Object[] values(Row row) {
        Object[] values = new Object[row.size()];
        for (int i = 0; i < values.length; i++) {
            Object value = row.getValue(i);
            values[i] = value instanceof Buffer bytes ? bytes.getBytes() : value;
        }
        return values;
    }

    private static <T> T await(Future<T> future) throws Exception {
        try {
            return future.toCompletionStage().toCompletableFuture().get(WAIT_SECONDS, TimeUnit.SECONDS);
        } catch (ExecutionException error) {
            throw refused(error.getCause());
        }
    }

    private static Exception refused(Throwable error) {
        return error instanceof MySQLException one
                ? new Refused(one.getErrorCode(), one.getSqlState(), one)
                : new Exception(error);
    }
}
