<?php
// A client in PHP: runs sections named on the command line and prints what it saw, line by line. The transcript of a
// run through the proxy is compared with that of a run without it, so nothing that differs from run to run is printed.
//
// Arguments: host, port, user, database, sections.

declare(strict_types=1);

mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
set_time_limit(100);

const TEXT = "x' OR 1=1 -- \\ \" % ? 🎉 C:\\new Größe 日本";
const COLUMNS = [
    'a TINYINT' => -128, 'b SMALLINT UNSIGNED' => 65535, 'c INT' => -2147483648, 'd BIGINT' => PHP_INT_MAX, 'e FLOAT' => 1.5,
    'f DOUBLE' => -1.25e100, 'g DECIMAL(30,10)' => '-12345.0123456789', 'h VARCHAR(200)' => TEXT,
    'i VARBINARY(300)' => "\x00\xff'\\\n", 'j DATE' => '2026-12-31', 'k DATETIME(6)' => '2026-12-31 23:59:59.123456',
    'l TIME(6)' => '-11:03:05.250000', 'm LONGTEXT' => 'long é', 'n LONGBLOB' => 'long', 'o TIMESTAMP NULL' => '2026-03-04 05:06:07',
    'p BOOLEAN' => 1, 'q CHAR(5)' => '', 'r YEAR' => 2026, "t ENUM('x','y')" => 'y',
];
const MISTAKES = [
    "INSERT INTO php_errors VALUES (1, 'b')", 'INSERT INTO php_errors VALUES (2, NULL)', "INSERT INTO php_errors VALUES (2, 'too long')",
    'INSERT INTO php_errors (nope) VALUES (2)', 'INSERT INTO php_missing VALUES (1)', 'SELEC 1',
];

[, $host, $port, $user, $database] = $argv;

function say(string $line): void
{
    echo $line, "\n";
}

function shown(mixed $value): string
{
    if ($value === null) {
        return 'NULL';
    }
    $text = is_string($value) ? $value : json_encode($value);
    if (strlen($text) > 200) {
        return strlen($text) . ' bytes, crc ' . hash('crc32b', $text);
    }
    $text = preg_match('/^[^\x00-\x1f]*$/Du', $text) ? $text : '0x' . bin2hex($text);
    return $text . ' : ' . get_debug_type($value);
}

function row(array $values): string
{
    return 'row | ' . implode(' | ', array_map(shown(...), array_values($values)));
}

function rows(iterable $found): void
{
    foreach ($found as $values) {
        say(row($values));
    }
}

function connect(int $flags = 0, bool $infile = false): mysqli
{
    global $host, $port, $user, $database;
    $connection = mysqli_init();
    $connection->options(MYSQLI_OPT_CONNECT_TIMEOUT, 20);
    $connection->options(MYSQLI_OPT_READ_TIMEOUT, 60);
    $connection->options(MYSQLI_OPT_LOCAL_INFILE, (int) $infile);
    $connection->real_connect($host, $user, '', $database, (int) $port, null, $flags);
    $connection->set_charset('utf8mb4');
    return $connection;
}

function pdo(array $options = []): PDO
{
    global $host, $port, $user, $database;
    $pdo = new PDO("mysql:host=$host;port=$port;dbname=$database;charset=utf8mb4", $user, '', $options + [PDO::ATTR_TIMEOUT => 20]);
    $pdo->setAttribute(PDO::ATTR_DEFAULT_FETCH_MODE, PDO::FETCH_NUM);
    return $pdo;
}

function refused(string $what, callable $action): void
{
    try {
        $action();
        say("$what: not refused");
    } catch (mysqli_sql_exception $error) {
        say("$what: {$error->getCode()} {$error->getSqlState()}");
    } catch (PDOException $error) {
        say("$what: " . implode(' ', array_slice($error->errorInfo, 0, 2)));
    }
}

function makeTypes(mysqli $connection): array
{
    $connection->query('DROP TABLE IF EXISTS php_types');
    $connection->query('CREATE TABLE php_types (id INT AUTO_INCREMENT PRIMARY KEY, ' . implode(', ', array_keys(COLUMNS)) . ')');
    $values = array_values(COLUMNS);
    $values[12] = str_repeat('y', 70000) . 'é';
    $values[13] = str_repeat("\0", 300000);
    return [implode(', ', array_map(fn ($column) => explode(' ', $column)[0], array_keys(COLUMNS))), $values];
}

function types(): void
{
    $connection = connect();
    [$names, $values] = makeTypes($connection);
    $escaped = array_map(fn ($value) => is_string($value) ? "'" . $connection->real_escape_string($value) . "'" : json_encode($value), $values);
    $connection->query("INSERT INTO php_types ($names) VALUES (" . implode(', ', $escaped) . ')');
    say("inserted $connection->affected_rows $connection->insert_id");
    $marks = implode(', ', array_fill(0, count($values), '?'));
    $insert = $connection->prepare("INSERT INTO php_types ($names) VALUES ($marks)");
    $insert->execute($values);
    say("inserted $insert->affected_rows $insert->insert_id");
    $insert->execute(array_fill(0, count($values), null));
    $typed = str_repeat('i', 4) . 'dd' . str_repeat('s', count($values) - 6);
    $insert->bind_param($typed, ...$values);
    $insert->execute();
    $blob = $connection->prepare('INSERT INTO php_types (n) VALUES (?)');
    $null = null;
    $blob->bind_param('b', $null);
    foreach (range(0, 4) as $piece) {
        $blob->send_long_data(0, str_repeat((string) $piece, 50000));
    }
    $blob->execute();
    $found = $connection->query('SELECT * FROM php_types ORDER BY id');
    foreach ($found->fetch_fields() as $field) {
        say("column $field->name $field->type $field->length $field->decimals");
    }
    rows($found->fetch_all());
    $select = $connection->prepare('SELECT * FROM php_types WHERE id >= ? AND (h = ? OR h IS NULL) ORDER BY id');
    $select->execute([1, TEXT]);
    rows($select->get_result()->fetch_all());
    foreach ([true, false] as $emulate) {
        $pdo = pdo([PDO::ATTR_EMULATE_PREPARES => $emulate, PDO::ATTR_STRINGIFY_FETCHES => false]);
        $insert = $pdo->prepare("INSERT INTO php_types ($names) VALUES ($marks)");
        foreach ($values as $i => $value) {
            $insert->bindValue($i + 1, $value, is_int($value) ? PDO::PARAM_INT : ($i === 13 ? PDO::PARAM_LOB : PDO::PARAM_STR));
        }
        $insert->execute();
        say("inserted {$insert->rowCount()} {$pdo->lastInsertId()}");
        $select = $pdo->prepare('SELECT * FROM php_types WHERE id > ? AND g < ? ORDER BY id');
        $select->execute([3, 0]);
        rows($select);
    }
    $connection->query('DROP TABLE php_types');
}

function results(): void
{
    $connection = connect();
    $connection->query('DROP TABLE IF EXISTS php_rows');
    $connection->query('CREATE TABLE php_rows (n INT PRIMARY KEY, s VARCHAR(500))');
    foreach (range(0, 5000, 500) as $start) {
        $values = array_map(fn ($n) => "($n, '" . str_repeat('é', $n % 300) . "')", range($start, $start + 499));
        $connection->query('INSERT INTO php_rows VALUES ' . implode(', ', $values));
    }
    foreach ([MYSQLI_STORE_RESULT, MYSQLI_USE_RESULT] as $mode) {
        $count = $sum = 0;
        foreach ($connection->query('SELECT n, s FROM php_rows ORDER BY n', $mode) as $values) {
            $count++;
            $sum += $values['n'] * 31 + strlen($values['s']);
        }
        say("$count rows, $sum");
    }
    $half = $connection->query('SELECT n FROM php_rows ORDER BY n', MYSQLI_USE_RESULT);
    say(row($half->fetch_row()));
    $half->free();
    $pdo = pdo([PDO::MYSQL_ATTR_USE_BUFFERED_QUERY => false, PDO::ATTR_EMULATE_PREPARES => false]);
    $select = $pdo->prepare('SELECT COUNT(*), n % 10 AS d FROM php_rows WHERE n >= ? GROUP BY d ORDER BY d');
    $select->execute([100]);
    rows($select);
    $cursor = $connection->prepare('SELECT n FROM php_rows WHERE n < ? ORDER BY n');
    $cursor->attr_set(MYSQLI_STMT_ATTR_CURSOR_TYPE, MYSQLI_CURSOR_TYPE_READ_ONLY);
    $cursor->execute([1000]);
    $cursor->bind_result($n);
    for ($count = 0; $cursor->fetch(); $count++);
    say("$count rows by cursor");
    $connection->query('DROP TABLE php_rows');
}

function transactions(): void
{
    [$one, $two] = [connect(), connect()];
    $one->query('DROP TABLE IF EXISTS php_account');
    $one->query('CREATE TABLE php_account (id INT PRIMARY KEY, balance INT) ENGINE=InnoDB');
    foreach (['rollback', 'commit'] as $end) {
        $one->begin_transaction();
        $one->query('INSERT INTO php_account VALUES (1, 100), (2, 100)');
        $one->savepoint('here');
        $one->query('DELETE FROM php_account');
        $one->query('ROLLBACK TO here');
        rows($two->query('SELECT COUNT(*) FROM php_account')->fetch_all());
        $one->$end();
        rows($two->query('SELECT COUNT(*) FROM php_account')->fetch_all());
    }
    $pdo = pdo();
    $pdo->beginTransaction();
    $pdo->exec('UPDATE php_account SET balance = 1');
    say(var_export($pdo->inTransaction(), true));
    $pdo->rollBack();
    rows($two->query('SELECT SUM(balance) FROM php_account')->fetch_all());
    $one->query('DROP TABLE php_account');
}

function errors(): void
{
    $connection = connect();
    $connection->query('DROP TABLE IF EXISTS php_errors');
    $connection->query('CREATE TABLE php_errors (id INT PRIMARY KEY, s VARCHAR(3) NOT NULL)');
    $connection->query("INSERT INTO php_errors VALUES (1, 'a')");
    $pdo = pdo([PDO::ATTR_EMULATE_PREPARES => false]);
    foreach (MISTAKES as $sql) {
        refused($sql, fn () => $connection->query($sql));
        refused($sql, fn () => $pdo->prepare($sql)->execute());
    }
    $connection->query('DROP TABLE IF EXISTS php_missing');
    say("warnings $connection->warning_count");
    rows($connection->query('SELECT COUNT(*) FROM php_errors')->fetch_all());
    $connection->query('DROP TABLE php_errors');
}

function several_results(): void
{
    $connection = connect();
    $connection->multi_query("CREATE TEMPORARY TABLE php_several (n INT); INSERT INTO php_several VALUES (1), (2); SELECT n FROM php_several; SELECT ';'");
    do {
        if ($found = $connection->store_result()) {
            rows($found->fetch_all());
        } else {
            say("count $connection->affected_rows");
        }
    } while ($connection->more_results() && $connection->next_result());
    refused('not allowed', fn () => $connection->query('SELECT 1; SELECT 2'));
    $pdo = pdo();
    $several = $pdo->query("SELECT 1; SELECT 'x', 2");
    rows($several);
    $several->nextRowset();
    rows($several);
}

function session(): void
{
    global $user, $database;
    $connection = connect(MYSQLI_CLIENT_FOUND_ROWS);
    $connection->query("SET @mine = 7, time_zone = '+02:00'");
    rows($connection->query('SELECT @mine, @@session.time_zone')->fetch_all());
    $connection->change_user($user, '', $database);
    rows($connection->query('SELECT @mine')->fetch_all());
    $connection->set_charset('latin1');
    rows($connection->query("SELECT CHAR_LENGTH('Gr\xf6\xdfe'), 'Gr\xf6\xdfe'")->fetch_all());
    $connection->select_db($database);
    say(var_export($connection->query('DO 1'), true));
    [$one, $two] = [connect(), connect()];
    foreach ([$one, $two] as $number => $asynchronous) {
        $asynchronous->query("SELECT SLEEP(0.2), $number", MYSQLI_ASYNC);
    }
    for ($done = 0; $done < 2;) {
        [$read, $error, $reject] = [[$one, $two], [], []];
        if (!mysqli_poll($read, $error, $reject, 20)) {
            break;
        }
        foreach ($read as $ready) {
            $done += $ready->reap_async_query()->num_rows;
        }
    }
    say("asynchronous $done");
}

// The driver compresses when it is told to, whether the server offers it or not.
function compressed(): void
{
    $connection = connect(MYSQLI_CLIENT_COMPRESS);
    $connection->query('DROP TABLE IF EXISTS php_compressed');
    $connection->query('CREATE TABLE php_compressed (n INT PRIMARY KEY, x LONGBLOB)');
    $insert = $connection->prepare('INSERT INTO php_compressed VALUES (?, ?)');
    foreach ([0, 1, 49, 50, 51, 5000, 16385, 1000000] as $size) {
        $insert->execute([$size, substr(str_repeat(md5((string) $size, true) . 'x', (int) ($size / 17) + 1), 0, $size)]);
    }
    rows($connection->query('SELECT n, x, CRC32(x) FROM php_compressed ORDER BY n')->fetch_all());
    $select = $connection->prepare('SELECT x FROM php_compressed WHERE n > ? ORDER BY n');
    $select->execute([50]);
    rows($select->get_result()->fetch_all());
    refused('an error', fn () => $connection->query('SELECT * FROM php_missing'));
    $connection->query('DROP TABLE php_compressed');
}

function procedures(): void
{
    $connection = connect();
    $connection->query('DROP PROCEDURE IF EXISTS php_totals');
    $connection->query('CREATE PROCEDURE php_totals (IN a INT, OUT b INT) BEGIN SELECT a AS first; SELECT 7, 8; SET b = a * 2; END');
    $call = $connection->prepare('CALL php_totals(?, @b)');
    $call->execute([3]);
    do {
        if ($found = $call->get_result()) {
            rows($found->fetch_all());
        }
    } while ($call->more_results() && $call->next_result());
    rows($connection->query('SELECT @b')->fetch_all());
    try {
        $connection->query("SIGNAL SQLSTATE '45001' SET MESSAGE_TEXT = 'ours: Größe', MYSQL_ERRNO = 5001");
    } catch (mysqli_sql_exception $error) {
        say($error->getMessage());
    }
    $connection->query('DROP PROCEDURE php_totals');
    say(preg_replace('/\d+/', 'n', explode('  ', $connection->stat())[0]));
}

function load_data(): void
{
    $file = tempnam(sys_get_temp_dir(), 'rows');
    file_put_contents($file, implode('', array_map(fn ($n) => "$n\trow $n é\n", range(0, 19999))));
    $load = "LOAD DATA LOCAL INFILE '$file' INTO TABLE php_load CHARACTER SET utf8mb4";
    $connection = connect(infile: true);
    $connection->query('DROP TABLE IF EXISTS php_load');
    $connection->query('CREATE TABLE php_load (n INT, s VARCHAR(40))');
    $connection->query($load);
    say("loaded $connection->affected_rows $connection->info");
    rows($connection->query('SELECT COUNT(*), SUM(n), MAX(s) FROM php_load')->fetch_all());
    refused('not allowed', fn () => connect()->query($load));
    $connection->query('DROP TABLE php_load');
    unlink($file);
}

function large(): void
{
    $connection = connect();
    $connection->query('DROP TABLE IF EXISTS php_large');
    $connection->query('CREATE TABLE php_large (x LONGBLOB)');
    $content = substr(str_repeat(implode('', array_map(chr(...), range(0, 250))), 80000), 0, 18 << 20);
    $connection->prepare('INSERT INTO php_large VALUES (?)')->execute([$content]);
    rows($connection->query('SELECT LENGTH(x), CRC32(x), x FROM php_large')->fetch_all());
    $connection->query('DROP TABLE php_large');
}

// A queue in plain SQL, start to end. Every language's client tells the same story; the test knows it by heart.

const QUEUE = 'php_queue';

function queue(): void
{
    [$connection, $receiver] = [connect(), connect()];
    $connection->query('DROP QUEUE IF EXISTS ' . QUEUE);
    $connection->query('CREATE QUEUE ' . QUEUE . " (n INT, payload VARCHAR(100), body BLOB) WITH (ack_wait = '5m')");
    $insert = $connection->prepare('INSERT INTO ' . QUEUE . ' (n, payload, body) VALUES (?, ?, ?)');
    $connection->begin_transaction();
    $insert->execute([0, 'undone', null]);
    $connection->rollback();
    $connection->begin_transaction();
    $count = 0;
    foreach ([[10, 'Größe 🎉 日本', "\x00\xff"], [11, "it's \\ \"quoted\" %s ?", null], [null, null, '']] as $message) {
        $insert->execute($message);
        $count += $insert->affected_rows;
    }
    $connection->commit();
    say("enqueued $count");
    $columns = 'SELECT n, payload, body FROM STREAM ' . QUEUE;
    messages($connection->query("$columns LIMIT 2")->fetch_all());
    $select = $connection->prepare("$columns LIMIT ? WAIT ?");
    $select->execute([1, 10]);
    messages($select->get_result()->fetch_all());
    foreach (['LIMIT 5 NOWAIT', 'LIMIT 5 WAIT 0.1'] as $nothing) {
        say('due: ' . ($connection->query("$columns $nothing")->num_rows ? 'something' : 'nothing'));
    }
    settle($connection);
    stream($receiver, $connection);
    states($connection);
    $connection->query('DROP QUEUE ' . QUEUE);
}

function messages(array $found): void
{
    foreach ($found as [$n, $payload, $body]) {
        say('row | ' . ($n ?? 'NULL') . ' | ' . ($payload ?? 'NULL') . ' | ' . ($body === null ? 'NULL' : '0x' . bin2hex($body)));
    }
}

function settle(mysqli $connection): void
{
    $pdo = pdo([PDO::ATTR_EMULATE_PREPARES => false]);
    $find = $pdo->prepare('SELECT id FROM ' . QUEUE . ' WHERE n = ?');
    $ack = $pdo->prepare('ACK ' . QUEUE . ' ?');
    foreach ([10, 10, 11] as $n) {
        $find->execute([$n]);
        $ack->execute([$find->fetchColumn()]);
        say("acked {$ack->rowCount()}");
    }
    $connection->begin_transaction();
    $connection->query('ACK ' . QUEUE . ' WHERE payload IS NULL');
    say("acked $connection->affected_rows");
    $connection->rollback();
    states($connection);
    try {
        $connection->query('ACK ' . QUEUE . '_missing 1');
    } catch (mysqli_sql_exception $error) {
        say("error {$error->getCode()} {$error->getSqlState()}");
    }
}

// Row by row, each acked on the other connection before the next is sent; ended by KILL QUERY.
function stream(mysqli $receiver, mysqli $other): void
{
    $found = $receiver->query('SELECT id, n FROM STREAM ' . QUEUE, MYSQLI_USE_RESULT);
    foreach (range(100, 104) as $n) {
        $other->query('INSERT INTO ' . QUEUE . " (n) VALUES ($n)");
        [$id, $got] = $found->fetch_row();
        $other->query('ACK ' . QUEUE . " $id");
        say("streamed $got, acked $other->affected_rows");
    }
    $other->query("KILL QUERY $receiver->thread_id");
    try {
        $found->fetch_row();
        say('ended ' . $receiver->errno . ' ' . $receiver->sqlstate);
    } catch (mysqli_sql_exception $error) {
        say("ended {$error->getCode()} {$error->getSqlState()}");
    }
    $found->free();
    say('goes on ' . $receiver->query('SELECT 1')->fetch_row()[0]);
}

function states(mysqli $connection): void
{
    foreach ($connection->query('SELECT state, COUNT(*) FROM ' . QUEUE . ' GROUP BY state ORDER BY 1') as $values) {
        say(implode(' ', $values));
    }
}

// Persistent connections are PHP's pools. Each line of the input is a statement, run on the connection that is kept, and
// answered with a line: what was in the first row, or the error.
function statements(callable $first): void
{
    while (($line = fgets(STDIN)) !== false) {
        try {
            say('= ' . ($first(rtrim($line, "\n")) ?? 'nothing'));
        } catch (mysqli_sql_exception $error) {
            say("error {$error->getCode()} {$error->getSqlState()}");
        } catch (PDOException $error) {
            say('error ' . implode(' ', array_reverse(array_slice($error->errorInfo ?? [$error->getCode()], 0, 2))));
        }
    }
}

function persistent_mysqli(): void
{
    statements(function (string $sql) {
        global $host, $port, $user, $database;
        $connection = new mysqli("p:$host", $user, '', $database, (int) $port);
        try {
            $found = $connection->query($sql);
            return $found === true ? null : $found->fetch_row()[0] ?? null;
        } finally {
            $connection->close(); // which keeps it
        }
    });
}

function persistent_pdo(): void
{
    statements(function (string $sql) {
        $pdo = pdo([PDO::ATTR_PERSISTENT => true]);
        return $pdo->query($sql)->fetchColumn() ?: null;
    });
}

$failed = 0;
foreach (array_slice($argv, 5) as $name) {
    say("== $name");
    try {
        $name();
        say('-- done');
    } catch (Throwable $error) {
        $failed = 1;
        say('-- failed: ' . $error->getMessage());
        fwrite(STDERR, "$error\n");
    }
}
exit($failed);
