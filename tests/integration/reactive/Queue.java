/** A queue in plain SQL, start to end. Every client tells the same story; the test knows it by heart. */
final class Queue {
    static void run(Main.Target target) throws Exception {
        String queue = "java_" + target.driver().replace('-', '_') + "_queue";
        try (Client one = target.connect(); Client two = target.connect()) {
            one.update("DROP QUEUE IF EXISTS " + queue);
            one.update("CREATE QUEUE " + queue + " (n INT, payload VARCHAR(100), body BLOB) WITH (ack_wait = '5m')");
            enqueue(one, queue);
            receive(one, queue);
            settle(one, queue);
            stream(target, two, queue);
            states(two, queue);
            two.update("DROP QUEUE " + queue);
        }
    }

    private static void enqueue(Client client, String queue) throws Exception {
        client.begin();
        insert(client, queue, 0, "undone", null);
        client.rollback();
        client.begin();
        long count = insert(client, queue, 10, "Größe 🎉 日本", "00ff");
        count += insert(client, queue, 11, "it's \\ \"quoted\" %s ?", null);
        count += insert(client, queue, null, null, "");
        client.commit();
        Main.line("enqueued %d", count);
    }

    private static long insert(Client client, String queue, Integer n, String payload, String body) throws Exception {
        // The drivers take different objects for bytes; hexadecimal is the same for all.
        String bytes = body == null ? "NULL" : "X'" + body + "'";
        return client.update("INSERT INTO " + queue + " (n, payload, body) VALUES (?, ?, " + bytes + ")", n, payload);
    }

    private static void receive(Client client, String queue) throws Exception {
        String columns = "SELECT n, payload, body FROM STREAM " + queue;
        Main.rows(client.query(columns + " LIMIT 2"));
        Main.rows(client.query(columns + " LIMIT ? WAIT ?", 1, 10));
        for (String nothing : new String[] {" LIMIT 5 NOWAIT", " LIMIT 5 WAIT 0.1"}) {
            Main.line("due: %s", client.query(columns + nothing).isEmpty() ? "nothing" : "something");
        }
    }

    private static void settle(Client client, String queue) throws Exception {
        for (int n : new int[] {10, 10, 11}) {
            Object id = client.query("SELECT id FROM " + queue + " WHERE n = ?", n).get(0)[0];
            Main.line("acked %d", client.update("ACK " + queue + " ?", id));
        }
        client.begin();
        Main.line("acked %d", client.update("ACK " + queue + " WHERE payload IS NULL"));
        client.rollback();
        states(client, queue);
        try {
            client.update("ACK " + queue + "_missing 1");
        } catch (Client.Refused error) {
            Main.line("error %d %s", error.number, error.state);
        }
    }

    /** Row by row, each acked on the other connection before the next is sent; ended by KILL QUERY. */
    private static void stream(Main.Target target, Client other, String queue) throws Exception {
        try (Client receiver = target.connect()) {
            Object id = receiver.query("SELECT CONNECTION_ID()").get(0)[0];
            send(other, queue, 100);
            Client.Rows rows = receiver.stream("SELECT id, n FROM STREAM " + queue);
            try {
                for (int n = 100; n < 105; n++) {
                    Object[] row = rows.next();
                    Main.line("streamed %s, acked %d", row[1], other.update("ACK " + queue + " " + row[0]));
                    if (n < 104) {
                        send(other, queue, n + 1);
                    }
                }
                other.update("KILL QUERY " + id);
                rows.next();
                Main.line("not ended");
            } catch (Client.Refused error) {
                Main.line("ended %d %s", error.number, error.state);
            }
            Main.line("goes on %s", receiver.query("SELECT 1").get(0)[0]);
        }
    }

    private static void send(Client client, String queue, int n) throws Exception {
        client.update("INSERT INTO " + queue + " (n) VALUES (" + n + ")");
    }

    private static void states(Client client, String queue) throws Exception {
        for (Object[] row : client.query("SELECT state, COUNT(*) FROM " + queue + " GROUP BY state ORDER BY 1")) {
            Main.line("%s %s", row[0], row[1]);
        }
    }

    private Queue() {}
}
