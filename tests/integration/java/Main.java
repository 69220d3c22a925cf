import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;

/**
 * A client in Java: runs sections named on the command line and prints what it saw, line by line. The transcript of a
 * run through the proxy is compared with that of a run without it, so nothing that differs from run to run is printed.
 *
 * <p>Arguments: driver (mysql or mariadb), host, port, user, database, sections.
 */
public final class Main {
    interface Section {
        void run(Target target) throws Exception;
    }

    /** Where to connect, and with which driver. */
    record Target(String driver, String host, int port, String user, String database) {
        boolean mysql() {
            return driver.equals("mysql");
        }

        String url(String database) {
            return "jdbc:" + driver + "://" + host + ":" + port + "/" + database;
        }

        /** A connection; options are the driver's own, as name, value, name, value. */
        Connection connect(String... options) throws SQLException {
            return connectTo(database, options);
        }

        Connection connectTo(String database, String... options) throws SQLException {
            Properties properties = new Properties();
            properties.setProperty("user", user);
            properties.setProperty("password", "");
            properties.setProperty("sslMode", mysql() ? "DISABLED" : "disable");
            properties.setProperty("connectTimeout", "20000");
            properties.setProperty("socketTimeout", "60000");
            for (int i = 0; i < options.length; i += 2) {
                properties.setProperty(options[i], options[i + 1]);
            }
            return DriverManager.getConnection(url(database), properties);
        }
    }

    private static final Map<String, Section> SECTIONS = new LinkedHashMap<>();

    static {
        SECTIONS.put("types", Ordinary::types);
        SECTIONS.put("batches", Ordinary::batches);
        SECTIONS.put("cursors", Ordinary::cursors);
        SECTIONS.put("keys", Ordinary::keys);
        SECTIONS.put("transactions", Ordinary::transactions);
        SECTIONS.put("errors", Ordinary::errors);
        SECTIONS.put("several_results", Ordinary::severalResults);
        SECTIONS.put("session", Ordinary::session);
        SECTIONS.put("charsets", Ordinary::charsets);
        SECTIONS.put("compressed", Ordinary::compressed);
        SECTIONS.put("cancel", Ordinary::cancel);
        SECTIONS.put("metadata", Metadata::run);
        SECTIONS.put("messages", Server::messages);
        SECTIONS.put("bulk", Server::bulk);
        SECTIONS.put("procedures", Server::procedures);
        SECTIONS.put("load_data", Server::loadData);
        SECTIONS.put("large", Server::large);
        SECTIONS.put("queue", Queue::run);
        SECTIONS.put("hikari", Pool::hikari);
        SECTIONS.put("pool", Pool::mariadb);
    }

    public static void main(String[] arguments) {
        Target target = new Target(arguments[0], arguments[1], Integer.parseInt(arguments[2]), arguments[3], arguments[4]);
        int failed = 0;
        for (int i = 5; i < arguments.length; i++) {
            Print.line("== %s", arguments[i]);
            try {
                SECTIONS.get(arguments[i]).run(target);
                Print.line("-- done");
            } catch (Exception error) {
                failed++;
                Print.line("-- failed: %s", error);
                error.printStackTrace();
            }
        }
        System.exit(failed == 0 ? 0 : 1); // drivers leave threads behind
    }

    private Main() {}
}
