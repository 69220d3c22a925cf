import java.util.List;

/** Ordinary SQL: types as text and prepared, transactions, errors, a large result. */
final class Ordinary {
    static void run(Main.Target target) throws Exception {
        try (Client client = target.connect()) {
            client.update("DROP TABLE IF EXISTS reactive_t");
            client.update("CREATE TABLE reactive_t (id INT AUTO_INCREMENT PRIMARY KEY, i BIGINT, d DECIMAL(10,2), f DOUBLE,"
                    + " s VARCHAR(50) CHARACTER SET utf8mb4, b VARBINARY(20), t DATETIME(6), UNIQUE KEY (s))");
            client.update("INSERT INTO reactive_t (i, d, f, s, b, t) VALUES (-5, 1.50, 0.25, 'Größe', X'00ff', '2026-01-02 03:04:05.678901')");
            client.update("INSERT INTO reactive_t (i, d, s) VALUES (?, ?, ?)", 9223372036854775807L, null, "日本");
            Main.rows(client.query("SELECT i, d, f, s, b, t FROM reactive_t ORDER BY id"));
            Main.rows(client.query("SELECT i, d, f, s, b, t FROM reactive_t WHERE i < ? ORDER BY id", 0));
            Main.rows(client.query("SELECT @@autocommit, @@version_comment <> '', @@innodb_lock_wait_timeout > 0"));
            client.begin();
            Main.line("changed %d", client.update("UPDATE reactive_t SET i = 7"));
            client.rollback();
            client.begin();
            Main.line("changed %d", client.update("UPDATE reactive_t SET i = 8 WHERE s = ?", "日本"));
            client.commit();
            Main.rows(client.query("SELECT i FROM reactive_t ORDER BY id"));
            for (String wrong : List.of(
                    "INSERT INTO reactive_t (s) VALUES ('Größe')", "SELEC 1", "SELECT * FROM reactive_missing", "SELECT nope FROM reactive_t")) {
                try {
                    client.update(wrong);
                    Main.line("not refused");
                } catch (Client.Refused error) {
                    Main.line("refused %d %s", error.number, error.state);
                }
            }
            Main.line("long: %d", client.query("SELECT REPEAT('a', 100000)").get(0)[0].toString().length());
            client.update("DROP TABLE reactive_t");
        }
    }

    private Ordinary() {}
}
