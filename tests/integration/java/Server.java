import java.io.ByteArrayInputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.Statement;
import java.sql.Types;

/** What takes a database server behind: its own words and variables, stored programs, LOAD DATA, packets over 16 MiB. */
final class Server {
    /** Errors and warnings in the server's words. */
    static void messages(Main.Target target) throws Exception {
        try (Connection connection = target.connect(); Statement statement = connection.createStatement()) {
            Print.update(connection, "DROP TABLE IF EXISTS java_errors");
            Print.update(connection, "CREATE TABLE java_errors (id INT PRIMARY KEY, s VARCHAR(3) NOT NULL)");
            Print.update(connection, "INSERT INTO java_errors VALUES (1, 'a')");
            for (String sql : Ordinary.MISTAKES) {
                Print.message(sql, () -> statement.execute(sql));
            }
            Print.message("unknown database", () -> target.connectTo("java_no_such_database").close());
            Print.message("signal", () -> Print.update(connection,
                    "BEGIN NOT ATOMIC SIGNAL SQLSTATE '45001' SET MESSAGE_TEXT = 'ours: Größe', MYSQL_ERRNO = 5001; END"));
            statement.execute("DROP TABLE IF EXISTS java_no_such_table, java_nor_this");
            Print.warnings(statement.getWarnings());
            statement.execute("INSERT IGNORE INTO java_errors VALUES (1, 'x'), (2, 'too long')");
            Print.warnings(statement.getWarnings());
            statement.setMaxRows(1);
            try (ResultSet rows = statement.executeQuery("SELECT id, s FROM java_errors ORDER BY id")) {
                Print.rows(rows, false);
            }
            Print.update(connection, "DROP TABLE java_errors");
        }
    }

    /** Batches as MariaDB's bulk command, JSON, and a connection that may only read. */
    static void bulk(Main.Target target) throws Exception {
        Ordinary.batches(target, new String[][] {
            {"useBulkStmts", "true", "useServerPrepStmts", "true"},
            {"useBulkStmtsForInserts", "true", "useServerPrepStmts", "true"},
        }, true);
        try (Connection connection = target.connect("useServerPrepStmts", "true")) {
            Print.update(connection, "DROP TABLE IF EXISTS java_json");
            Print.update(connection, "CREATE TABLE java_json (s JSON)");
            Print.update(connection, "INSERT INTO java_json VALUES ('{\"a\": [1, null]}')");
            try (PreparedStatement select = connection.prepareStatement("SELECT s, JSON_VALUE(s, '$.a[0]') FROM java_json");
                    ResultSet rows = select.executeQuery()) {
                Print.rows(rows, true);
            }
            connection.setAutoCommit(false);
            connection.setReadOnly(true);
            Print.refusal("read only", () -> Print.update(connection, "DELETE FROM java_json"));
            connection.rollback();
            connection.setReadOnly(false);
            connection.setAutoCommit(true);
            Print.update(connection, "DROP TABLE java_json");
        }
    }

    static void procedures(Main.Target target) throws Exception {
        try (Connection connection = target.connect()) {
            Print.update(connection, "DROP PROCEDURE IF EXISTS java_totals");
            Print.update(connection, "DROP FUNCTION IF EXISTS java_twice");
            Print.update(connection, "CREATE PROCEDURE java_totals (IN a INT, INOUT b INT, OUT c VARCHAR(20)) BEGIN"
                    + " SELECT a AS first; SELECT a, b UNION SELECT 7, 8; SET b = b + a; SET c = CONCAT('sum ', b); END");
            Print.update(connection, "CREATE FUNCTION java_twice (n INT) RETURNS INT DETERMINISTIC RETURN n * 2");
            try (CallableStatement call = connection.prepareCall("{call java_totals(?, ?, ?)}")) {
                call.setInt(1, 3);
                call.setInt(2, 4);
                call.registerOutParameter(2, Types.INTEGER);
                call.registerOutParameter(3, Types.VARCHAR);
                boolean rows = call.execute();
                while (rows) {
                    Print.rows(call.getResultSet(), false);
                    rows = call.getMoreResults();
                }
                Print.line("out %d %s", call.getInt(2), call.getString(3));
            }
            try (CallableStatement call = connection.prepareCall("{? = call java_twice(?)}")) {
                call.registerOutParameter(1, Types.INTEGER);
                call.setInt(2, 21);
                call.execute();
                Print.line("function %d", call.getInt(1));
            }
            try (PreparedStatement call = connection.prepareStatement("CALL java_totals(1, @b, @c)")) {
                Print.line("prepared %s", call.execute());
            }
            try (ResultSet rows = connection.getMetaData().getProcedureColumns(target.database(), null, "java_totals", "%")) {
                while (rows.next()) {
                    Print.line("parameter %s %d", rows.getString("COLUMN_NAME"), rows.getInt("COLUMN_TYPE"));
                }
            }
            Print.update(connection, "DROP PROCEDURE java_totals");
            Print.update(connection, "DROP FUNCTION java_twice");
        }
    }

    static void loadData(Main.Target target) throws Exception {
        Path file = Files.createTempFile("rows", ".csv");
        StringBuilder text = new StringBuilder();
        for (int n = 0; n < 20_000; n++) {
            text.append(n).append(",\"row ").append(n).append(" é\"\n");
        }
        Files.writeString(file, text);
        try (Connection connection = target.connect("allowLoadLocalInfile", "true", "allowLocalInfile", "true");
                Statement statement = connection.createStatement()) {
            statement.execute("DROP TABLE IF EXISTS java_load");
            statement.execute("CREATE TABLE java_load (n INT, s VARCHAR(40))");
            String load = "LOAD DATA LOCAL INFILE '" + file + "' INTO TABLE java_load CHARACTER SET utf8mb4"
                    + " FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"'";
            Print.line("loaded %d", statement.executeUpdate(load));
            Print.query(connection, "SELECT COUNT(*), SUM(n), MAX(s) FROM java_load");
            if (target.mysql()) {
                statement.unwrap(com.mysql.cj.jdbc.JdbcStatement.class)
                        .setLocalInfileInputStream(new ByteArrayInputStream("1,a\n2,b\n".getBytes(StandardCharsets.UTF_8)));
                Print.line("loaded %d", statement.executeUpdate(load));
            }
            statement.execute("DROP TABLE java_load");
        } finally {
            Files.delete(file);
        }
        try (Connection connection = target.connect("allowLoadLocalInfile", "false", "allowLocalInfile", "false")) {
            try {
                Print.update(connection, "LOAD DATA LOCAL INFILE '/nowhere' INTO TABLE java_load");
            } catch (java.sql.SQLException error) {
                Print.line("not allowed: %s", error.getSQLState());
            }
            Print.line("still there: %s", connection.isValid(5));
        }
    }

    static void large(Main.Target target) throws Exception {
        byte[] bytes = new byte[18 << 20];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) (i * 31 + (i >> 12));
        }
        for (String prepared : new String[] {"false", "true"}) {
            try (Connection connection = target.connect("useServerPrepStmts", prepared, "maxAllowedPacket", "67108864")) {
                Print.update(connection, "DROP TABLE IF EXISTS java_large");
                Print.update(connection, "CREATE TABLE java_large (id INT AUTO_INCREMENT PRIMARY KEY, x LONGBLOB)");
                try (PreparedStatement insert = connection.prepareStatement("INSERT INTO java_large (x) VALUES (?)")) {
                    insert.setBytes(1, bytes);
                    insert.executeUpdate();
                    insert.setBinaryStream(1, new ByteArrayInputStream(bytes));
                    insert.executeUpdate();
                }
                Print.query(connection, "SELECT id, LENGTH(x), CRC32(x) FROM java_large ORDER BY id");
                try (PreparedStatement select = connection.prepareStatement("SELECT x, id FROM java_large ORDER BY id");
                        ResultSet rows = select.executeQuery()) {
                    Print.rows(rows, false);
                }
                Print.update(connection, "DROP TABLE java_large");
            }
        }
    }

    private Server() {}
}
