import jakarta.persistence.Column;
import jakarta.persistence.Entity;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.GenerationType;
import jakarta.persistence.Id;
import jakarta.persistence.Table;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.Statement;
import java.util.Arrays;
import org.flywaydb.core.Flyway;
import org.hibernate.SessionFactory;
import org.hibernate.cfg.Configuration;

/** Flyway with a baseline, then Hibernate with hbm2ddl=update over a queue: prints what came of it, and ends with "done". */
public class SchemaTools {
    @Entity(name = "OrderMessage")
    @Table(name = "orders")
    public static class OrderMessage {
        @Id
        @GeneratedValue(strategy = GenerationType.IDENTITY)
        Long id;

        @Column(length = 256)
        String payload;

        @Column(length = 11, insertable = false, updatable = false)
        String state;
    }

    @Entity(name = "Customer")
    @Table(name = "customers")
    public static class Customer {
        @Id
        @GeneratedValue(strategy = GenerationType.IDENTITY)
        Long id;

        @Column(length = 40, unique = true)
        String name;
    }

    public static void main(String[] arguments) throws Exception {
        String url = "jdbc:mysql://127.0.0.1:" + arguments[0] + "/main?sslMode=DISABLED&allowPublicKeyRetrieval=true";
        try (Connection connection = DriverManager.getConnection(url, "root", "");
                Statement statement = connection.createStatement()) {
            statement.execute("CREATE QUEUE orders (payload VARCHAR(256))"); // so the schema is not empty
        }
        migrate(url);
        for (int start = 0; start < 2; start++) {
            map(url); // the second start finds what the first has made, and changes nothing
        }
        try (Connection connection = DriverManager.getConnection(url, "root", "");
                Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT id, payload FROM STREAM orders LIMIT 2")) {
            while (rows.next()) {
                System.out.println("received " + rows.getLong(1) + " " + rows.getString(2));
            }
        }
        System.out.println("done");
    }

    private static void migrate(String url) {
        Flyway flyway = Flyway.configure()
                .dataSource(url, "root", "")
                .locations("classpath:migrations")
                .baselineOnMigrate(true)
                .load();
        System.out.println("migrations " + flyway.migrate().migrationsExecuted + ", then " + flyway.migrate().migrationsExecuted);
        Arrays.stream(flyway.info().all()).forEach(one ->
                System.out.println(one.getVersion() + " " + one.getDescription() + " " + one.getState().getDisplayName()));
        flyway.validate();
    }

    private static void map(String url) {
        Configuration configuration = new Configuration()
                .addAnnotatedClass(OrderMessage.class)
                .addAnnotatedClass(Customer.class)
                .setProperty("hibernate.connection.url", url)
                .setProperty("hibernate.connection.username", "root")
                .setProperty("hibernate.connection.password", "")
                .setProperty("hibernate.hbm2ddl.auto", "update")
                .setProperty("hibernate.hbm2ddl.halt_on_error", "true");
        try (SessionFactory factory = configuration.buildSessionFactory()) {
            OrderMessage message = factory.fromTransaction(session -> {
                OrderMessage one = new OrderMessage();
                one.payload = "hello";
                session.persist(one);
                Customer customer = new Customer();
                customer.name = "customer " + session.createQuery("from Customer", Customer.class).list().size();
                session.persist(customer);
                return one;
            });
            OrderMessage seen = factory.fromTransaction(session -> session.find(OrderMessage.class, message.id));
            System.out.println("message " + seen.id + " " + seen.payload + " " + seen.state);
            System.out.println("customers " + factory.fromTransaction(
                    session -> session.createQuery("from Customer order by id", Customer.class).list().size()));
        }
    }
}
