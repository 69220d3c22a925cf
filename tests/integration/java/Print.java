import java.io.PrintStream;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.SQLWarning;
import java.sql.Statement;
import java.util.HexFormat;
import java.util.zip.CRC32;

/** How values, rows and errors are written into the transcript: one line each, UTF-8, long ones as length and checksum. */
final class Print {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static final int LONG = 200;

    interface Action {
        void run() throws Exception;
    }

    static void line(String format, Object... values) {
        OUT.println(values.length == 0 ? format : String.format(format, values));
    }

    static String value(Object value) {
        if (value == null) {
            return "NULL";
        }
        if (value instanceof byte[] bytes) {
            return bytes.length > LONG ? checksum(bytes) : "0x" + HexFormat.of().formatHex(bytes);
        }
        if (value instanceof BigDecimal number) {
            return number.toPlainString();
        }
        String text = value.toString().replace("\n", "\\n");
        return text.length() > LONG ? checksum(text.getBytes(StandardCharsets.UTF_8)) : text;
    }

    static String checksum(byte[] bytes) {
        CRC32 sum = new CRC32();
        sum.update(bytes);
        return bytes.length + " bytes, crc " + Long.toHexString(sum.getValue());
    }

    /** Every row, each value with the Java type that the driver chose for it. */
    static void rows(ResultSet rows, boolean types) throws SQLException {
        ResultSetMetaData columns = rows.getMetaData();
        while (rows.next()) {
            StringBuilder row = new StringBuilder("row");
            for (int i = 1; i <= columns.getColumnCount(); i++) {
                Object value = rows.getObject(i);
                row.append(" | ").append(value(value));
                if (types && value != null) {
                    row.append(" : ").append(value.getClass().getSimpleName());
                }
            }
            line("%s", row);
        }
    }

    static void query(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
            rows(rows, false);
        }
    }

    static int update(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            return statement.executeUpdate(sql);
        }
    }

    /** The refusal that an action has to meet: number and state, which do not differ between servers. */
    static void refusal(String what, Action action) throws Exception {
        try {
            action.run();
            line("%s: not refused", what);
        } catch (SQLException error) {
            line("%s: %s %d %s", what, error.getClass().getSimpleName(), error.getErrorCode(), error.getSQLState());
        }
    }

    /** The same with the server's words. */
    static void message(String what, Action action) throws Exception {
        try {
            action.run();
            line("%s: not refused", what);
        } catch (SQLException error) { // one driver puts the connection's number before the text
            line("%s: %d %s", what, error.getErrorCode(), error.getMessage().replaceAll("\\(conn=\\d+\\) ", ""));
        }
    }

    static void warnings(SQLWarning warning) {
        for (SQLWarning next = warning; next != null; next = next.getNextWarning()) {
            line("warning %d %s %s", next.getErrorCode(), next.getSQLState(), next.getMessage());
        }
    }

    private Print() {}
}
