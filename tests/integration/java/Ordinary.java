import java.io.ByteArrayInputStream;
import java.io.StringReader;
import java.math.BigDecimal;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.Date;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Types;
import java.time.Duration;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.Arrays;

/** Ordinary SQL as applications write it, that every backend understands. */
final class Ordinary {
    private static final String TYPES =
            "id INT AUTO_INCREMENT PRIMARY KEY, a TINYINT, b SMALLINT UNSIGNED, c INT, d BIGINT, e FLOAT, f DOUBLE,"
                    + " g DECIMAL(30,10), h VARCHAR(200), i VARBINARY(300), j DATE, k DATETIME(6), l TIME(6), m LONGTEXT,"
                    + " n LONGBLOB, o TIMESTAMP NULL, p BOOLEAN, q CHAR(5), r YEAR, s LONGTEXT, t ENUM('x','y'), u MEDIUMINT";

    private static final int PARAMETERS = 20;

    /** Values of every type and NULLs, sent and read as text and prepared on the server. */
    static void types(Main.Target target) throws Exception {
        try (Connection admin = target.connect()) {
            Print.update(admin, "DROP TABLE IF EXISTS java_types");
            Print.update(admin, "CREATE TABLE java_types (" + TYPES + ")");
            for (String prepared : new String[] {"false", "true"}) {
                try (Connection connection = target.connect("useServerPrepStmts", prepared)) {
                    // MySQL's driver leaves out fractions where a server calls itself 5.5, as MariaDB does
                    insertTypes(connection, target.mysql() ? 0 : 123456);
                    for (String where : new String[] {"id >= ?", "h = ?", "k < ?", "g > ?"}) {
                        selectTypes(connection, where);
                    }
                }
            }
            describe(admin, "SELECT id, a, b, c, d, e, f, g, h, i, j, k, l, m, n, p, q, s, t, u FROM java_types");
            Print.update(admin, "DROP TABLE java_types");
        }
    }

    private static void insertTypes(Connection connection, int micros) throws Exception {
        String names = "a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t";
        String marks = String.join(", ", java.util.Collections.nCopies(PARAMETERS, "?"));
        try (PreparedStatement insert =
                connection.prepareStatement("INSERT INTO java_types (" + names + ") VALUES (" + marks + ")")) {
            byte[] bytes = new byte[256];
            for (int i = 0; i < 256; i++) {
                bytes[i] = (byte) i;
            }
            insert.setByte(1, (byte) -128);
            insert.setInt(2, 65535);
            insert.setInt(3, Integer.MIN_VALUE);
            insert.setLong(4, Long.MAX_VALUE);
            insert.setFloat(5, 1.5f);
            insert.setDouble(6, -1.25e100);
            insert.setBigDecimal(7, new BigDecimal("-12345.0123456789"));
            insert.setString(8, "x' OR 1=1 -- \\ \" % ? 🎉 C:\\new Größe 日本");
            insert.setBytes(9, bytes);
            insert.setDate(10, Date.valueOf("2026-12-31"));
            insert.setObject(11, LocalDateTime.of(2026, 12, 31, 23, 59, 59, micros * 1000));
            insert.setObject(12, LocalTime.of(11, 3, 5, micros * 1000));
            insert.setCharacterStream(13, new StringReader("y".repeat(70_000) + "é"), 70_001);
            insert.setBinaryStream(14, new ByteArrayInputStream(new byte[300_000]), 300_000);
            insert.setObject(15, LocalDateTime.of(2026, 3, 4, 5, 6, 7));
            insert.setBoolean(16, true);
            insert.setString(17, "");
            insert.setInt(18, 2026);
            insert.setString(19, "{\"a\": [1, null]}");
            insert.setString(20, "y");
            Print.line("inserted %d", insert.executeUpdate());
            Print.line("inserted %d", insert.executeUpdate()); // types are not sent a second time
            for (int i = 1; i <= PARAMETERS; i++) {
                insert.setNull(i, i % 2 == 0 ? Types.NULL : Types.VARCHAR);
            }
            Print.line("inserted %d", insert.executeUpdate());
        }
    }

    private static void selectTypes(Connection connection, String where) throws Exception {
        try (PreparedStatement select =
                connection.prepareStatement("SELECT * FROM java_types WHERE " + where + " ORDER BY id")) {
            switch (where.charAt(0)) {
                case 'i' -> select.setInt(1, 2);
                case 'h' -> select.setString(1, "x' OR 1=1 -- \\ \" % ? 🎉 C:\\new Größe 日本");
                case 'k' -> select.setObject(1, LocalDateTime.of(2027, 1, 1, 0, 0));
                default -> select.setBigDecimal(1, new BigDecimal("-12345.0123456790"));
            }
            try (ResultSet rows = select.executeQuery()) {
                if (where.startsWith("id")) {
                    Print.rows(rows, true);
                } else {
                    while (rows.next()) {
                        Print.line("%s finds %d", where, rows.getInt(1));
                    }
                }
            }
            try (ResultSet rows = select.executeQuery()) {
                rows.next();
                Print.line("%s %s %s %s %s", rows.getObject(11 + 1, LocalDateTime.class),
                        rows.getObject(10 + 1, LocalDate.class), rows.getString(12 + 1), rows.getBoolean(16 + 1),
                        rows.getTimestamp(15 + 1));
            }
        }
    }

    private static void describe(Connection connection, String sql) throws Exception {
        try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
            ResultSetMetaData columns = rows.getMetaData();
            for (int i = 1; i <= columns.getColumnCount(); i++) {
                Print.line("column %s %s %d %d %d null=%d auto=%s signed=%s %s.%s %s", columns.getColumnLabel(i),
                        columns.getColumnTypeName(i), columns.getColumnType(i), columns.getPrecision(i),
                        columns.getScale(i), columns.isNullable(i), columns.isAutoIncrement(i), columns.isSigned(i),
                        columns.getTableName(i), columns.getColumnName(i), columns.getColumnClassName(i));
            }
        }
    }

    /** Batches, one statement each, and rewritten into one INSERT. */
    static void batches(Main.Target target) throws Exception {
        String[][] ways = {
            {"useServerPrepStmts", "false"},
            {"useServerPrepStmts", "true"},
            {"rewriteBatchedStatements", "true"},
            {"rewriteBatchedStatements", "true", "useServerPrepStmts", "true"},
        };
        batches(target, ways, target.mysql());
        try (Connection connection = target.connect(); Statement statement = connection.createStatement()) {
            statement.addBatch("CREATE TABLE java_batch (n INT)");
            statement.addBatch("INSERT INTO java_batch VALUES (1), (2)");
            statement.addBatch("UPDATE java_batch SET n = n + 1");
            statement.addBatch("DROP TABLE java_batch");
            Print.line("counts %s", Arrays.toString(statement.executeBatch()));
        }
    }

    /** `counts`: also those of a batch that failed; MariaDB's driver sends it whole where the server is MariaDB. */
    static void batches(Main.Target target, String[][] ways, boolean counts) throws Exception {
        for (String[] way : ways) {
            try (Connection connection = target.connect(way)) {
                Print.update(connection, "DROP TABLE IF EXISTS java_batch");
                Print.update(connection, "CREATE TABLE java_batch (n INT PRIMARY KEY, s VARCHAR(20))");
                connection.setAutoCommit(false);
                try (PreparedStatement insert = connection.prepareStatement("INSERT INTO java_batch (n, s) VALUES (?, ?)")) {
                    for (int n = 0; n < 500; n++) {
                        insert.setInt(1, n);
                        insert.setString(2, n % 7 == 0 ? null : "row " + n);
                        insert.addBatch();
                    }
                    Print.line("%s: %d counts, %s", String.join(" ", way), Arrays.stream(insert.executeBatch()).count(), "ok");
                }
                connection.commit();
                Print.query(connection, "SELECT COUNT(*), SUM(n), COUNT(s) FROM java_batch");
                duplicateInBatch(connection, counts);
                Print.update(connection, "DROP TABLE java_batch");
            }
        }
    }

    private static void duplicateInBatch(Connection connection, boolean counts) throws Exception {
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO java_batch (n, s) VALUES (?, ?)")) {
            for (int n : new int[] {1000, 3, 1001}) {
                insert.setInt(1, n);
                insert.setString(2, "again");
                insert.addBatch();
            }
            insert.executeBatch();
            Print.line("not refused");
        } catch (BatchUpdateException error) {
            Print.line("refused %d %s %s", error.getErrorCode(), error.getSQLState(),
                    counts ? Arrays.toString(error.getUpdateCounts()) : "");
        }
        connection.rollback();
        Print.query(connection, "SELECT COUNT(*) FROM java_batch");
    }

    /** Cursors kept by the server, rows streamed one by one, and results left half read. */
    static void cursors(Main.Target target) throws Exception {
        try (Connection connection = target.connect("rewriteBatchedStatements", "true")) {
            Print.update(connection, "DROP TABLE IF EXISTS java_rows");
            Print.update(connection, "CREATE TABLE java_rows (n INT PRIMARY KEY, s VARCHAR(200), d DECIMAL(10,2) NULL)");
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO java_rows (n, s, d) VALUES (?, ?, ?)")) {
                for (int n = 0; n < 5000; n++) {
                    insert.setInt(1, n);
                    insert.setString(2, "é".repeat(n % 200));
                    insert.setBigDecimal(3, n % 3 == 0 ? null : new BigDecimal(n).movePointLeft(1));
                    insert.addBatch();
                }
                insert.executeBatch();
            }
        }
        String[][] ways = {
            {"useCursorFetch", "true", "useServerPrepStmts", "true"},
            {"useServerPrepStmts", "true"},
            {"useServerPrepStmts", "false"},
        };
        for (String[] way : ways) {
            try (Connection connection = target.connect(way)) {
                boolean cursor = way[0].equals("useCursorFetch");
                for (int size : cursor || !target.mysql() ? new int[] {1, 50, 5000} : new int[] {Integer.MIN_VALUE, 0}) {
                    readAll(connection, size);
                }
                try (Statement limited = connection.createStatement()) {
                    limited.setMaxRows(3);
                    try (ResultSet rows = limited.executeQuery("SELECT n FROM java_rows ORDER BY n DESC")) {
                        Print.rows(rows, false);
                    }
                }
                for (int i = 0; i < 3; i++) {
                    leaveHalfRead(connection, cursor || !target.mysql() ? 10 : Integer.MIN_VALUE);
                }
            }
        }
        try (Connection connection = target.connect()) {
            try (Statement scrolling =
                            connection.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE);
                    ResultSet rows = scrolling.executeQuery("SELECT n, s FROM java_rows WHERE n < 5 ORDER BY n")) {
                rows.absolute(3);
                rows.updateString("s", "changed in place");
                rows.updateRow();
                rows.last();
                Print.line("last %d of %d", rows.getInt(1), rows.getRow());
            }
            Print.query(connection, "SELECT s FROM java_rows WHERE n = 2");
            Print.update(connection, "DROP TABLE java_rows");
        }
    }

    private static void readAll(Connection connection, int fetchSize) throws Exception {
        try (PreparedStatement select =
                connection.prepareStatement("SELECT n, s, d FROM java_rows WHERE n >= ? ORDER BY n",
                        ResultSet.TYPE_FORWARD_ONLY, ResultSet.CONCUR_READ_ONLY)) {
            select.setFetchSize(fetchSize);
            select.setInt(1, 100);
            int count = 0;
            long sum = 0;
            try (ResultSet rows = select.executeQuery()) {
                while (rows.next()) {
                    count++;
                    sum += rows.getInt(1) * 31L + rows.getString(2).length() + (rows.getBigDecimal(3) == null ? 7 : 0);
                }
            }
            Print.line("fetch size %d: %d rows, %d", fetchSize, count, sum);
        }
    }

    private static void leaveHalfRead(Connection connection, int fetchSize) throws Exception {
        try (PreparedStatement select = connection.prepareStatement("SELECT n FROM java_rows ORDER BY n")) {
            select.setFetchSize(fetchSize);
            try (ResultSet rows = select.executeQuery()) {
                rows.next();
                rows.next();
                Print.line("left at %d", rows.getInt(1));
            }
        }
    }

    /** Generated keys, of one row and of many, and what the counts say. */
    static void keys(Main.Target target) throws Exception {
        try (Connection connection = target.connect("useServerPrepStmts", "true")) {
            Print.update(connection, "DROP TABLE IF EXISTS java_keys");
            Print.update(connection,
                    "CREATE TABLE java_keys (id BIGINT AUTO_INCREMENT PRIMARY KEY, s VARCHAR(20) UNIQUE, n INT DEFAULT 0)");
            for (String values : new String[] {"('a')", "('b'), ('c'), ('d')"}) {
                try (Statement statement = connection.createStatement()) {
                    int count = statement.executeUpdate("INSERT INTO java_keys (s) VALUES " + values,
                            Statement.RETURN_GENERATED_KEYS);
                    Print.line("count %d", count);
                    try (ResultSet keys = statement.getGeneratedKeys()) {
                        Print.rows(keys, false);
                    }
                }
            }
            try (PreparedStatement insert = connection.prepareStatement(
                    "INSERT INTO java_keys (s) VALUES (?) ON DUPLICATE KEY UPDATE n = n + 1", Statement.RETURN_GENERATED_KEYS)) {
                for (String s : new String[] {"e", "a", "a", "f"}) {
                    insert.setString(1, s);
                    Print.line("count %d", insert.executeUpdate());
                    try (ResultSet keys = insert.getGeneratedKeys()) {
                        Print.rows(keys, false);
                    }
                }
            }
            Print.line("replaced %d", Print.update(connection, "REPLACE INTO java_keys (s) VALUES ('b')"));
            Print.line("found %d", Print.update(connection, "UPDATE java_keys SET n = 0"));
            Print.line("ignored %d", Print.update(connection, "INSERT IGNORE INTO java_keys (s) VALUES ('a'), ('z')"));
            Print.query(connection, "SELECT s, n FROM java_keys ORDER BY s");
            Print.update(connection, "DROP TABLE java_keys");
        }
        try (Connection connection = target.connect("useAffectedRows", "true")) {
            Print.update(connection, "CREATE TABLE java_keys (n INT)");
            Print.update(connection, "INSERT INTO java_keys VALUES (0), (1)");
            Print.line("changed %d", Print.update(connection, "UPDATE java_keys SET n = 0"));
            Print.update(connection, "DROP TABLE java_keys");
        }
    }

    /** Commit, rollback, savepoints, isolation levels, read-only transactions, a second connection that looks on. */
    static void transactions(Main.Target target) throws Exception {
        try (Connection one = target.connect(); Connection two = target.connect()) {
            Print.update(one, "DROP TABLE IF EXISTS java_account");
            Print.update(one, "CREATE TABLE java_account (id INT PRIMARY KEY, balance INT) ENGINE=InnoDB");
            one.setAutoCommit(false);
            Print.update(one, "INSERT INTO java_account VALUES (1, 100), (2, 100)");
            Print.query(two, "SELECT COUNT(*) FROM java_account");
            one.commit();
            Print.query(two, "SELECT COUNT(*) FROM java_account");
            Print.update(one, "UPDATE java_account SET balance = 50 WHERE id = 1");
            Savepoint savepoint = one.setSavepoint("before");
            Print.update(one, "UPDATE java_account SET balance = 0");
            one.rollback(savepoint);
            one.commit();
            Print.query(two, "SELECT id, balance FROM java_account ORDER BY id");
            Print.update(one, "DELETE FROM java_account");
            one.rollback();
            Print.query(two, "SELECT COUNT(*) FROM java_account");
            for (int level : new int[] {Connection.TRANSACTION_READ_COMMITTED, Connection.TRANSACTION_REPEATABLE_READ,
                Connection.TRANSACTION_SERIALIZABLE}) {
                one.setTransactionIsolation(level);
                Print.query(one, "SELECT id FROM java_account WHERE id = 1 FOR UPDATE");
                one.rollback();
                Print.line("isolation %d", one.getTransactionIsolation());
            }
            Print.update(one, "START TRANSACTION READ ONLY");
            Print.refusal("read only", () -> Print.update(one, "DELETE FROM java_account"));
            one.rollback();
            one.setAutoCommit(true);
            Print.line("deleted %d", Print.update(one, "DELETE FROM java_account"));
            Print.update(one, "DROP TABLE java_account");
        }
    }

    static final String[] MISTAKES = {
        "INSERT INTO java_errors VALUES (1, 'b')",
        "INSERT INTO java_errors VALUES (2, NULL)",
        "INSERT INTO java_errors VALUES (2, 'too long')",
        "INSERT INTO java_errors (nope) VALUES (2)",
        "INSERT INTO java_missing VALUES (1)",
        "CREATE TABLE java_errors (n INT)",
        "SELEC 1",
        "SELECT FROM WHERE",
    };

    /** Errors with the server's number and state; the connection goes on after each. */
    static void errors(Main.Target target) throws Exception {
        for (String prepared : new String[] {"false", "true"}) {
            try (Connection connection = target.connect("useServerPrepStmts", prepared)) {
                Print.update(connection, "DROP TABLE IF EXISTS java_errors");
                Print.update(connection, "CREATE TABLE java_errors (id INT PRIMARY KEY, s VARCHAR(3) NOT NULL)");
                Print.update(connection, "INSERT INTO java_errors VALUES (1, 'a')");
                for (String sql : MISTAKES) {
                    Print.refusal(sql, () -> {
                        try (PreparedStatement statement = connection.prepareStatement(sql)) {
                            statement.executeUpdate();
                        }
                    });
                }
                Print.query(connection, "SELECT COUNT(*) FROM java_errors");
                Print.update(connection, "DROP TABLE java_errors");
            }
        }
        Print.refusal("unknown database", () -> target.connectTo("java_no_such_database").close());
        try (Connection connection = target.connect(); Statement statement = connection.createStatement()) {
            statement.execute("DROP TABLE IF EXISTS java_no_such_table");
            Print.line("warned: %s", statement.getWarnings() != null);
        }
    }

    /** Several statements in one text, and several results. */
    static void severalResults(Main.Target target) throws Exception {
        try (Connection connection = target.connect("allowMultiQueries", "true");
                Statement statement = connection.createStatement()) {
            Print.update(connection, "DROP TABLE IF EXISTS java_several");
            boolean rows = statement.execute("CREATE TABLE java_several (n INT); INSERT INTO java_several VALUES (1), (2);"
                    + " SELECT n FROM java_several ORDER BY n; UPDATE java_several SET n = 5; SELECT ';', n FROM java_several LIMIT 1");
            while (rows || statement.getUpdateCount() != -1) {
                if (rows) {
                    Print.rows(statement.getResultSet(), false);
                } else {
                    Print.line("count %d", statement.getUpdateCount());
                }
                rows = statement.getMoreResults();
            }
            Print.refusal("the second fails", () -> {
                boolean more = statement.execute("INSERT INTO java_several VALUES (6); SELECT * FROM java_missing; SELECT 1");
                Print.line("first %s %d", more, statement.getUpdateCount());
                statement.getMoreResults();
            });
            Print.query(connection, "SELECT COUNT(*) FROM java_several");
            Print.update(connection, "DROP TABLE java_several");
        }
        try (Connection connection = target.connect()) {
            try {
                Print.query(connection, "SELECT 1; SELECT 2");
            } catch (java.sql.SQLException error) {
                Print.line("not allowed: %d %s", error.getErrorCode(), error.getSQLState());
            }
        }
    }

    /** What a pool does with a connection between two borrowers. */
    static void session(Main.Target target) throws Exception {
        try (Connection connection = target.connect()) {
            Print.line("valid %s", connection.isValid(5));
            Print.line("catalog is the database: %s", connection.getCatalog().equals(target.database()));
            connection.setCatalog(target.database());
            Print.update(connection, "SET @mine = 7");
            Print.query(connection, "SELECT @mine");
            for (String zone : new String[] {"+02:00", "+00:00"}) {
                Print.update(connection, "SET time_zone = '" + zone + "'");
                Print.query(connection, "SELECT @@session.time_zone, FROM_UNIXTIME(86400)");
            }
            Print.update(connection, "CREATE TEMPORARY TABLE java_temporary (n INT)");
            Print.update(connection, "INSERT INTO java_temporary VALUES (1)");
            Print.query(connection, "SELECT * FROM java_temporary");
        }
        try (Connection connection = target.connect()) {
            Print.query(connection, "SELECT @mine");
            Print.refusal("temporary table", () -> Print.query(connection, "SELECT * FROM java_temporary"));
        }
    }

    /** Text in several character sets, there and back. */
    static void charsets(Main.Target target) throws Exception {
        try (Connection admin = target.connect()) {
            Print.update(admin, "DROP TABLE IF EXISTS java_text");
            Print.update(admin, "CREATE TABLE java_text (n INT, s VARCHAR(100)) CHARACTER SET utf8mb4");
            if (target.mysql()) { // the other driver speaks utf8mb4 only
                for (String charset : new String[] {"UTF-8", "ISO-8859-1"}) {
                    try (Connection connection = target.connect("characterEncoding", charset);
                            PreparedStatement insert = connection.prepareStatement("INSERT INTO java_text VALUES (1, ?)")) {
                        insert.setString(1, "Größe ñ");
                        insert.executeUpdate();
                        Print.query(connection, "SELECT s, s = 'Größe ñ' FROM java_text");
                    }
                }
            }
            Print.update(admin, "INSERT INTO java_text VALUES (2, '日本 🎉')");
            Print.query(admin, "SELECT s, HEX(s), CHAR_LENGTH(s) FROM java_text ORDER BY n");
            Print.update(admin, "DROP TABLE java_text");
        }
    }

    /** The compressed protocol, with values that shrink and values that do not. */
    static void compressed(Main.Target target) throws Exception {
        try (Connection connection = target.connect("useCompression", "true", "useServerPrepStmts", "true")) {
            Print.update(connection, "DROP TABLE IF EXISTS java_compressed");
            Print.update(connection, "CREATE TABLE java_compressed (n INT PRIMARY KEY, x LONGBLOB)");
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO java_compressed VALUES (?, ?)")) {
                java.util.Random random = new java.util.Random(7);
                for (int size : new int[] {0, 1, 49, 50, 51, 5000, 16_385, 1_000_000}) {
                    byte[] bytes = new byte[size];
                    insert.setInt(1, size);
                    insert.setBytes(2, bytes);
                    Print.line("inserted %d", insert.executeUpdate());
                    random.nextBytes(bytes);
                    insert.setInt(1, -1 - size);
                    insert.setBytes(2, bytes);
                    Print.line("inserted %d", insert.executeUpdate());
                }
            }
            Print.query(connection, "SELECT n, x, CRC32(x) FROM java_compressed ORDER BY n");
            try (PreparedStatement select = connection.prepareStatement("SELECT x FROM java_compressed WHERE n < ? ORDER BY n")) {
                select.setInt(1, 0);
                try (ResultSet rows = select.executeQuery()) {
                    Print.rows(rows, false);
                }
            }
            Print.refusal("an error", () -> Print.query(connection, "SELECT * FROM java_missing"));
            Print.update(connection, "DROP TABLE java_compressed");
        }
    }

    /** A statement that takes too long, ended by the driver's own timeout and by cancel(), which use a second connection. */
    static void cancel(Main.Target target) throws Exception {
        try (Connection connection = target.connect(); Statement statement = connection.createStatement()) {
            statement.setQueryTimeout(1);
            long began = System.nanoTime();
            try {
                statement.executeQuery("SELECT SLEEP(30)").close();
            } catch (java.sql.SQLException error) {
                Print.line("timeout: %s", error.getClass().getSimpleName());
            }
            Print.line("in time: %s", Duration.ofNanos(System.nanoTime() - began).toSeconds() < 20);
            Print.query(connection, "SELECT 'goes on'");
        }
        try (Connection connection = target.connect(); Statement statement = connection.createStatement()) {
            Thread canceller = new Thread(() -> {
                try (Connection other = target.connect()) {
                    awaitSleeper(other, "SLEEP(31)");
                    statement.cancel();
                } catch (Exception error) {
                    Print.line("cancel failed: %s", error);
                }
            });
            canceller.start();
            long began = System.nanoTime();
            try {
                statement.executeQuery("SELECT SLEEP(31)").close();
            } catch (java.sql.SQLException error) {
                Print.line("cancelled");
            }
            canceller.join(30_000);
            Print.line("in time: %s", Duration.ofNanos(System.nanoTime() - began).toSeconds() < 20);
            Print.query(connection, "SELECT 'goes on'");
        }
    }

    /** Waits until the statement is seen to run. */
    private static void awaitSleeper(Connection connection, String text) throws Exception {
        for (int i = 0; i < 2000; i++) {
            try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery("SHOW FULL PROCESSLIST")) {
                while (rows.next()) {
                    String info = rows.getString("Info");
                    if (info != null && info.contains(text)) {
                        return;
                    }
                }
            }
            Thread.sleep(5);
        }
        throw new IllegalStateException("the statement never ran");
    }

    private Ordinary() {}
}
