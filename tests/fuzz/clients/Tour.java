import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;

/** What a JDBC driver says: its questions after login, cursors, batches, a transaction, a stream. */
public class Tour {
    static void read(ResultSet rows) throws SQLException {
        while (rows.next()) {
            rows.getObject(1);
        }
        rows.close();
    }

    public static void main(String[] args) throws Exception {
        String more = "&useCursorFetch=true&useServerPrepStmts=true&sslMode=" + args[2];
        String url = "jdbc:" + args[1] + "://127.0.0.1:" + args[0] + "/main?allowMultiQueries=true" + more;
        try (Connection connection = DriverManager.getConnection(url, "root", "")) {
            try (Statement statement = connection.createStatement()) {
                read(statement.executeQuery("SELECT 1"));
                statement.execute("SELECT id FROM ft LIMIT 2; SELECT 2");
                try {
                    statement.execute("SELECT * FROM nowhere");
                } catch (SQLException expected) {
                    // its error is what is wanted
                }
            }
            try (PreparedStatement select = connection.prepareStatement("SELECT id, name, n, d, b FROM ft WHERE id > ?")) {
                select.setFetchSize(1);
                select.setInt(1, 0);
                read(select.executeQuery());
            }
            connection.setAutoCommit(false);
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO fq (payload) VALUES (?)")) {
                for (String payload : new String[] {"one", "two"}) {
                    insert.setString(1, payload);
                    insert.addBatch();
                }
                insert.executeBatch();
            }
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO ft (name, n, d, b) VALUES (?, ?, ?, ?)")) {
                insert.setString(1, "java");
                insert.setBigDecimal(2, new java.math.BigDecimal("2.50"));
                insert.setTimestamp(3, new Timestamp(0));
                insert.setBytes(4, new byte[] {0, -1});
                insert.execute();
            }
            connection.commit();
            connection.setAutoCommit(true);
            try (Statement statement = connection.createStatement()) {
                read(statement.executeQuery("SELECT id, payload FROM STREAM fq LIMIT 1 NOWAIT"));
                statement.executeUpdate("ACK fq 3");
            }
        }
    }
}
