import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.List;

/**
 * A reactive client in Java: runs sections named on the command line and prints what it saw, line by line.
 *
 * <p>Arguments: driver (r2dbc, r2dbc-prepared or vertx), host, port, user or user:password, database, sections.
 */
public final class Main {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    /** Where to connect, and with which driver. */
    record Target(String driver, String host, int port, String user, String password, String database) {
        Client connect() throws Exception {
            return driver.equals("vertx") ? new VertxClient(this) : new R2dbc(this, driver.equals("r2dbc-prepared"));
        }
    }

    public static void main(String[] arguments) {
        String[] account = arguments[3].split(":", 2);
        Target target = new Target(
                arguments[0], arguments[1], Integer.parseInt(arguments[2]),
                account[0], account.length > 1 ? account[1] : "", arguments[4]);
        int failed = 0;
        for (int i = 5; i < arguments.length; i++) {
            line("== %s", arguments[i]);
            try {
                switch (arguments[i]) {
                    case "login" -> login(target);
                    case "ordinary" -> Ordinary.run(target);
                    case "queue" -> Queue.run(target);
                    default -> throw new IllegalArgumentException("no such section");
                }
                line("-- done");
            } catch (Exception error) {
                failed++;
                line("-- failed: %s", error);
                error.printStackTrace();
            }
        }
        System.exit(failed == 0 ? 0 : 1); // drivers leave threads behind
    }

    private static void login(Target target) throws Exception {
        try (Client client = target.connect()) {
            rows(client.query("SELECT 1"));
        } catch (Client.Refused error) {
            line("refused %d %s", error.number, error.state);
        }
    }

    static void line(String format, Object... values) {
        OUT.println(values.length == 0 ? format : String.format(format, values));
    }

    static void rows(List<Object[]> rows) {
        for (Object[] row : rows) {
            StringBuilder text = new StringBuilder("row");
            for (Object value : row) {
                text.append(" | ").append(value(value));
            }
            line("%s", text);
        }
    }

    static String value(Object value) {
        if (value instanceof ByteBuffer buffer) {
            byte[] bytes = new byte[buffer.remaining()];
            buffer.duplicate().get(bytes);
            return value(bytes);
        }
        return value instanceof byte[] bytes ? "0x" + HexFormat.of().formatHex(bytes) : value == null ? "NULL" : value.toString();
    }

    private Main() {}
}
