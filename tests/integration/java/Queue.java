import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.HexFormat;

/** A queue in plain SQL, start to end. Every language's client tells the same story; the test knows it by heart. */
final class Queue {
    static void run(Main.Target target) throws Exception {
        String queue = "java_" + target.driver() + "_queue";
        try (Connection one = target.connect("useServerPrepStmts", "true"); Connection two = target.connect()) {
            Print.update(one, "DROP QUEUE IF EXISTS " + queue);
            Print.update(one, "CREATE QUEUE " + queue + " (n INT, payload VARCHAR(100), body BLOB) WITH (ack_wait = '5m')");
            enqueue(one, queue);
            receive(one, queue);
            settle(one, queue);
            stream(target, two, queue);
            try (Statement statement = two.createStatement()) {
                states(statement, queue);
                statement.executeUpdate("DROP QUEUE " + queue);
            }
        }
    }

    private static void enqueue(Connection connection, String queue) throws SQLException {
        connection.setAutoCommit(false);
        insert(connection, queue, 0, "undone", null);
        connection.rollback();
        int count = insert(connection, queue, 10, "Größe 🎉 日本", "00ff");
        count += insert(connection, queue, 11, "it's \\ \"quoted\" %s ?", null);
        count += insert(connection, queue, null, null, "");
        connection.commit();
        connection.setAutoCommit(true);
        Print.line("enqueued %d", count);
    }

    private static int insert(Connection connection, String queue, Integer n, String payload, String body) throws SQLException {
        try (PreparedStatement insert =
                connection.prepareStatement("INSERT INTO " + queue + " (n, payload, body) VALUES (?, ?, ?)")) {
            insert.setObject(1, n);
            insert.setString(2, payload);
            insert.setBytes(3, body == null ? null : HexFormat.of().parseHex(body));
            return insert.executeUpdate();
        }
    }

    private static void receive(Connection connection, String queue) throws SQLException {
        String columns = "SELECT n, payload, body FROM STREAM " + queue;
        Print.query(connection, columns + " LIMIT 2");
        try (PreparedStatement select = connection.prepareStatement(columns + " LIMIT ? WAIT ?")) {
            select.setInt(1, 1);
            select.setInt(2, 10);
            try (ResultSet rows = select.executeQuery()) {
                Print.rows(rows, false);
            }
        }
        for (String nothing : new String[] {" LIMIT 5 NOWAIT", " LIMIT 5 WAIT 0.1"}) {
            try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(columns + nothing)) {
                Print.line("due: %s", rows.next() ? "something" : "nothing");
            }
        }
    }

    private static void settle(Connection connection, String queue) throws SQLException {
        try (Statement statement = connection.createStatement();
                PreparedStatement ack = connection.prepareStatement("ACK " + queue + " ?");
                PreparedStatement find = connection.prepareStatement("SELECT id FROM " + queue + " WHERE n = ?")) {
            for (int n : new int[] {10, 10, 11}) {
                find.setInt(1, n);
                try (ResultSet found = find.executeQuery()) {
                    found.next();
                    ack.setLong(1, found.getLong(1));
                }
                Print.line("acked %d", ack.executeUpdate());
            }
            connection.setAutoCommit(false);
            Print.line("acked %d", statement.executeUpdate("ACK " + queue + " WHERE payload IS NULL"));
            connection.rollback();
            connection.setAutoCommit(true);
            states(statement, queue);
            try {
                statement.executeUpdate("ACK " + queue + "_missing 1");
            } catch (SQLException error) {
                Print.line("error %d %s", error.getErrorCode(), error.getSQLState());
            }
        }
    }

    /** Row by row, each acked on the other connection before the next is sent; ended by KILL QUERY. */
    private static void stream(Main.Target target, Connection other, String queue) throws SQLException {
        try (Connection receiver = target.connect(); Statement statement = receiver.createStatement()) {
            long id = number(receiver, "SELECT CONNECTION_ID()");
            statement.setFetchSize(target.mysql() ? Integer.MIN_VALUE : 1);
            send(other, queue, 100);
            try (ResultSet rows = statement.executeQuery("SELECT id, n FROM STREAM " + queue)) {
                for (int n = 100; n < 105; n++) {
                    rows.next();
                    long message = rows.getLong(1);
                    Print.line("streamed %d, acked %d", rows.getInt(2), Print.update(other, "ACK " + queue + " " + message));
                    if (n < 104) {
                        send(other, queue, n + 1);
                    }
                }
                Print.update(other, "KILL QUERY " + id);
                rows.next();
                Print.line("not ended");
            } catch (SQLException error) {
                Print.line("ended %d %s", error.getErrorCode(), error.getSQLState());
            }
            Print.line("goes on %d", number(receiver, "SELECT 1"));
        }
    }

    private static void send(Connection connection, String queue, int n) throws SQLException {
        Print.update(connection, "INSERT INTO " + queue + " (n) VALUES (" + n + ")");
    }

    private static long number(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
            rows.next();
            return rows.getLong(1);
        }
    }

    private static void states(Statement statement, String queue) throws SQLException {
        try (ResultSet rows = statement.executeQuery("SELECT state, COUNT(*) FROM " + queue + " GROUP BY state ORDER BY 1")) {
            while (rows.next()) {
                Print.line("%s %d", rows.getString(1), rows.getInt(2));
            }
        }
    }

    private Queue() {}
}
