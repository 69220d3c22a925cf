import java.util.List;

/** What the story of a queue needs of a driver. Everything waits: the story is told line by line. */
interface Client extends AutoCloseable {
    long WAIT_SECONDS = 60;

    /** All rows of a query. Parameters make it a prepared one. */
    List<Object[]> query(String sql, Object... parameters) throws Exception;

    /** The number of rows that a statement changed. */
    long update(String sql, Object... parameters) throws Exception;

    void begin() throws Exception;

    void commit() throws Exception;

    void rollback() throws Exception;

    /** The rows of a result while they come; `next` waits for one, and throws what ends the result. */
    Rows stream(String sql) throws Exception;

    @Override
    void close() throws Refused;

    interface Rows {
        Object[] next() throws Exception;
    }

    /** What a server refused. */
    final class Refused extends Exception {
        private static final long serialVersionUID = 1;
        final int number;
        final String state;

        Refused(int number, String state, Throwable cause) {
            super(cause);
            this.number = number;
            this.state = state;
        }
    }
}
