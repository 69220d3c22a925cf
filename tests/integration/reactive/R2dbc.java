import io.asyncer.r2dbc.mysql.MySqlConnectionConfiguration;
import io.asyncer.r2dbc.mysql.MySqlConnectionFactory;
import io.asyncer.r2dbc.mysql.constant.SslMode;
import io.r2dbc.spi.Connection;
import io.r2dbc.spi.R2dbcException;
import io.r2dbc.spi.Result;
import io.r2dbc.spi.Row;
import io.r2dbc.spi.RowMetadata;
import io.r2dbc.spi.Statement;
import java.time.Duration;
import java.util.Iterator;
import java.util.List;
import org.reactivestreams.Publisher;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** r2dbc-mysql. Its parameters go into the text, or into statements that the server prepares. */
final class R2dbc implements Client {
    private static final Duration PATIENCE = Duration.ofSeconds(WAIT_SECONDS);
    private final Connection connection;

    R2dbc(Main.Target target, boolean prepared) throws Refused {
        MySqlConnectionConfiguration.Builder options = MySqlConnectionConfiguration.builder()
                .host(target.host())
                .port(target.port())
                .user(target.user())
                .database(target.database())
                .connectTimeout(Duration.ofSeconds(20))
                .sslMode(SslMode.DISABLED);
        if (!target.password().isEmpty()) {
            options.password(target.password());
        }
        if (prepared) {
            options.useServerPrepareStatement();
        }
        connection = await(MySqlConnectionFactory.from(options.build()).create());
    }

    @Override
    public List<Object[]> query(String sql, Object... parameters) throws Refused {
        return await(Flux.from(bound(sql, parameters).execute()).concatMap(R2dbc::rows).collectList());
    }

    @Override
    public long update(String sql, Object... parameters) throws Refused {
        return await(Flux.from(bound(sql, parameters).execute()).concatMap(Result::getRowsUpdated).reduce(0L, Long::sum));
    }

    @Override
    public void begin() throws Refused {
        await(connection.beginTransaction());
    }

    @Override
    public void commit() throws Refused {
        await(connection.commitTransaction());
    }

    @Override
    public void rollback() throws Refused {
        await(connection.rollbackTransaction());
    }

    @Override
    public Rows stream(String sql) {
        Iterator<Object[]> rows =
                Flux.from(connection.createStatement(sql).execute()).concatMap(R2dbc::rows).toIterable(1).iterator();
        return () -> {
            try {
                return rows.next();
            } catch (R2dbcException error) {
                throw refused(error);
            }
        };
    }

    @Override
    public void close() throws Refused {
        await(connection.close());
    }

    private Statement bound(String sql, Object... parameters) {
        Statement statement = connection.createStatement(sql);
        for (int i = 0; i < parameters.length; i++) {
            if (parameters[i] == null) {
                statement.bindNull(i, String.class);
            } else {
                statement.bind(i, parameters[i]);
            }
        }
        return statement;
    }

    private static Publisher<Object[]> rows(Result result) {
        return result.map(R2dbc::values);
    }

    private static Object[] values(Row row, RowMetadata columns) {
        Object[] values = new Object[columns.getColumnMetadatas().size()];
        for (int i = 0; i < values.length; i++) {
            values[i] = row.get(i);
        }
        return values;
    }

    private static <T> T await(Publisher<T> publisher) throws Refused {
        try {
            return Mono.from(publisher).block(PATIENCE);
        } catch (R2dbcException error) {
            throw refused(error);
        }
    }

    private static Refused refused(R2dbcException error) {
        return new Refused(error.getErrorCode(), error.getSqlState(), error);
    }
}
