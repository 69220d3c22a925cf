import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.ParameterMetaData;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.util.StringJoiner;

/** The catalog as tools for databases read it: tables, columns, keys, indexes, over the driver's metadata calls. */
final class Metadata {
    static void run(Main.Target target) throws Exception {
        try (Connection connection = target.connect("useServerPrepStmts", "true")) {
            Print.update(connection, "DROP VIEW IF EXISTS java_view");
            Print.update(connection, "DROP TABLE IF EXISTS java_child, java_parent");
            Print.update(connection, "CREATE TABLE java_parent (id INT AUTO_INCREMENT PRIMARY KEY, code VARCHAR(10) NOT NULL, UNIQUE KEY code (code))");
            Print.update(connection, "CREATE TABLE java_child (a INT, b BIGINT UNSIGNED NOT NULL, s VARCHAR(80) NOT NULL DEFAULT 'x',"
                    + " d DECIMAL(8,3), t DATETIME(3), x BLOB, parent INT, PRIMARY KEY (b, a), KEY by_s (s, d),"
                    + " CONSTRAINT java_to_parent FOREIGN KEY (parent) REFERENCES java_parent (id) ON DELETE CASCADE)");
            Print.update(connection, "CREATE VIEW java_view AS SELECT a, s FROM java_child");
            DatabaseMetaData data = connection.getMetaData();
            String catalog = target.database();
            print("table", data.getTables(catalog, null, "java\\_%", new String[] {"TABLE", "VIEW"}), "TABLE_NAME", "TABLE_TYPE");
            print("column", data.getColumns(catalog, null, "java_child", "%"), "COLUMN_NAME", "DATA_TYPE", "COLUMN_SIZE",
                    "DECIMAL_DIGITS", "NULLABLE", "ORDINAL_POSITION", "IS_AUTOINCREMENT");
            print("primary key", data.getPrimaryKeys(catalog, null, "java_child"), "COLUMN_NAME", "KEY_SEQ", "PK_NAME");
            print("index", data.getIndexInfo(catalog, null, "java_child", false, true), "INDEX_NAME", "NON_UNIQUE",
                    "ORDINAL_POSITION", "COLUMN_NAME");
            print("imported", data.getImportedKeys(catalog, null, "java_child"), "PKTABLE_NAME", "PKCOLUMN_NAME", "FKCOLUMN_NAME",
                    "FK_NAME", "DELETE_RULE");
            print("best row", data.getBestRowIdentifier(catalog, null, "java_child", DatabaseMetaData.bestRowSession, true), "COLUMN_NAME");
            parameters(connection);
            Print.line("transactions %s, batch %s, savepoints %s, quote %s", data.supportsTransactions(),
                    data.supportsBatchUpdates(), data.supportsSavepoints(), data.getIdentifierQuoteString());
            Print.update(connection, "DROP VIEW java_view");
            Print.update(connection, "DROP TABLE java_child, java_parent");
        }
    }

    private static void parameters(Connection connection) throws Exception {
        try (PreparedStatement statement =
                connection.prepareStatement("SELECT a + 1 AS more, s, d, COUNT(*) FROM java_child WHERE a = ? AND s = ? GROUP BY a, s, d")) {
            ParameterMetaData parameters = statement.getParameterMetaData();
            Print.line("parameters %d", parameters.getParameterCount());
            ResultSetMetaData columns = statement.getMetaData(); // before it is run
            for (int i = 1; i <= columns.getColumnCount(); i++) {
                Print.line("will give %s %s", columns.getColumnLabel(i), columns.getColumnTypeName(i));
            }
        }
    }

    private static void print(String what, ResultSet rows, String... columns) throws Exception {
        try (rows) {
            while (rows.next()) {
                StringJoiner line = new StringJoiner(" | ");
                for (String column : columns) {
                    line.add(Print.value(rows.getObject(column)));
                }
                Print.line("%s | %s", what, line);
            }
        }
    }

    private Metadata() {}
}
