import com.github.kagkarlsson.scheduler.Scheduler;
import com.github.kagkarlsson.scheduler.SchedulerBuilder;
import com.github.kagkarlsson.scheduler.SchedulerClient;
import com.github.kagkarlsson.scheduler.jdbc.MariaDBJdbcCustomization;
import com.github.kagkarlsson.scheduler.jdbc.MySQL8JdbcCustomization;
import com.github.kagkarlsson.scheduler.task.Task;
import com.github.kagkarlsson.scheduler.task.TaskDescriptor;
import com.github.kagkarlsson.scheduler.task.helper.Tasks;
import com.zaxxer.hikari.HikariDataSource;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Random;

/**
 * Jobs of db-scheduler: {@code work} runs them as its documentation has it for MariaDB, {@code work tuned} with its
 * strategy for high throughput, {@code produce COUNT PAUSE} enqueues them as benchmarks/jobs/producer.py does.
 *
 * <p>The environment names the port, the database and the folder of benchmarks/marks.py. Each producer begins with
 * {@link #WARM_UPS} jobs that are not counted, so that Java has compiled what is measured. Those before a backlog are
 * due at once, and so do the same for the worker; those before lone jobs are due in a day.
 */
public final class DbSchedulerJobs {
    private static final int THREADS = 4;
    private static final int WARM_UPS = 2000;
    private static final TaskDescriptor<Void> WARM_UP = TaskDescriptor.of("warm-up");
    private static final TaskDescriptor<Void> NOTHING = TaskDescriptor.of("nothing");
    private static final TaskDescriptor<Double> LONE = TaskDescriptor.of("lone", Double.class);
    private static final Path FOLDER = Path.of(System.getenv("QUEUEGATE_BENCH_FOLDER"));

    private DbSchedulerJobs() {}

    public static void main(String[] arguments) throws InterruptedException {
        HikariDataSource source = new HikariDataSource();
        String port = System.getenv("JOBS_PORT");
        source.setJdbcUrl("jdbc:mariadb://127.0.0.1:" + port + "/" + System.getenv("JOBS_DATABASE"));
        source.setUsername("root");
        if (arguments[0].equals("work")) {
            worker(source, arguments.length > 1).start();
            return;
        }
        try (source) {
            produce(client(source), Integer.parseInt(arguments[1]), Double.parseDouble(arguments[2]));
        }
    }

    /**
     * The default strategy selects due jobs and then locks each of them, every 10 s. The tuned one locks them as it
     * selects them, with SKIP LOCKED, every 0.1 s: its documentation has that for MySQL, and MariaDB understands it.
     */
    private static Scheduler worker(HikariDataSource source, boolean tuned) {
        SchedulerBuilder builder = Scheduler.create(source, tasks()).threads(THREADS).registerShutdownHook();
        if (!tuned) {
            return builder.alwaysPersistTimestampInUTC().build();
        }
        return builder.jdbcCustomization(new MySQL8JdbcCustomization(true))
                .pollUsingLockAndFetch(1.0, 4.0)
                .pollingInterval(Duration.ofMillis(100))
                .build();
    }

    private static List<Task<?>> tasks() {
        return List.of(
                Tasks.oneTime(WARM_UP).execute((instance, context) -> append("warm-up", new byte[] {'.'})),
                Tasks.oneTime(NOTHING).execute((instance, context) -> append("done", new byte[] {'.'})),
                Tasks.oneTime(LONE).execute((instance, context) -> append("took", sample(now() - instance.getData()))));
    }

    private static SchedulerClient client(HikariDataSource source) {
        return SchedulerClient.Builder.create(source).jdbcCustomization(new MariaDBJdbcCustomization(true)).build();
    }

    private static void produce(SchedulerClient client, int count, double pause) throws InterruptedException {
        Instant due = pause > 0 ? Instant.now().plus(Duration.ofDays(1)) : Instant.now();
        for (int i = 0; i < WARM_UPS; i++) {
            client.scheduleIfNotExists(WARM_UP.instance(Integer.toString(i)).scheduledTo(due));
        }
        Random chance = new Random(1);
        long began = System.nanoTime();
        for (int i = 0; i < count; i++) {
            String id = Integer.toString(i);
            if (pause > 0) {
                Thread.sleep(Math.round(1000 * pause * chance.nextDouble(0.75, 1.25))); // not in step with who polls
                client.scheduleIfNotExists(LONE.instance(id).data(now()).scheduledTo(Instant.now()));
            } else {
                client.scheduleIfNotExists(NOTHING.instance(id).scheduledTo(Instant.now()));
            }
        }
        System.out.println((System.nanoTime() - began) / 1e9);
    }

    /** Seconds, as Python's time.time() has them. */
    private static double now() {
        Instant now = Instant.now();
        return now.getEpochSecond() + now.getNano() / 1e9;
    }

    private static byte[] sample(double seconds) {
        return ByteBuffer.allocate(Double.BYTES).order(ByteOrder.LITTLE_ENDIAN).putDouble(seconds).array();
    }

    /** Adds to one of the files of benchmarks/marks.py. */
    private static void append(String name, byte[] data) {
        try {
            Files.write(FOLDER.resolve(name), data, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
