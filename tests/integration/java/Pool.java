import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import javax.sql.DataSource;
import org.mariadb.jdbc.MariaDbPoolDataSource;

/**
 * A pool of one connection. Each line of the input is a statement, run on the connection that the pool gives for it, and
 * answered with a line: what was in the first row, or the error. Both pools test a connection before they give it away.
 */
final class Pool {
    static void hikari(Main.Target target) throws Exception {
        System.setProperty("com.zaxxer.hikari.aliveBypassWindowMs", "0"); // else untested half a second after its last use
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl(target.url(target.database()) + "?sslMode=" + (target.mysql() ? "DISABLED" : "disable"));
        config.setUsername(target.user());
        config.setPassword("");
        config.setMaximumPoolSize(1);
        config.setConnectionTimeout(5000);
        config.setInitializationFailTimeout(-1);
        try (HikariDataSource pool = new HikariDataSource(config)) {
            answer(pool);
        }
    }

    static void mariadb(Main.Target target) throws Exception {
        String options = "?sslMode=disable&maxPoolSize=1&minPoolSize=1&poolValidMinDelay=0&connectTimeout=5000&user=" + target.user();
        try (MariaDbPoolDataSource pool = new MariaDbPoolDataSource(target.url(target.database()) + options)) {
            answer(pool);
        }
    }

    private static void answer(DataSource pool) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String sql = input.readLine(); sql != null; sql = input.readLine()) {
            try (Connection connection = pool.getConnection(); Statement statement = connection.createStatement()) {
                Print.line("= %s", statement.execute(sql) ? first(statement.getResultSet()) : "done");
            } catch (SQLException error) {
                SQLException told = told(error);
                Print.line("error %d %s", told.getErrorCode(), told.getSQLState());
            }
        }
    }

    private static String first(ResultSet rows) throws SQLException {
        String found = rows.next() ? rows.getString(1) : "nothing";
        while (rows.next()) {} // to the end
        return found;
    }

    /** What the server said, where the pool says that it has no connection. */
    private static SQLException told(SQLException error) {
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            if (cause instanceof SQLException refused && refused.getErrorCode() > 0) {
                return refused;
            }
        }
        return error;
    }

    private Pool() {}
}
