'use strict';
// Ordinary SQL as applications write it, that every backend understands.

const mysql = require('mysql2');
const promise = require('mysql2/promise');
const { say, row, rows, code, refused } = require('./print');

const TEXT = 'x\' OR 1=1 -- \\ " % ? 🎉 C:\\new Größe 日本';

async function types(target) {
  const connection = await promise.createConnection({ ...target, decimalNumbers: false });
  for (const way of ['query', 'execute']) {
    await connection.query('DROP TABLE IF EXISTS node_types');
    await connection.query(
      'CREATE TABLE node_types (id INT AUTO_INCREMENT PRIMARY KEY, a TINYINT, b SMALLINT UNSIGNED, c INT, d BIGINT,' +
        ' e FLOAT, f DOUBLE, g DECIMAL(30,10), h VARCHAR(200), i VARBINARY(300), j DATE, k DATETIME(6), l TIME(6),' +
        " m LONGTEXT, n LONGBLOB, o TIMESTAMP NULL, p BOOLEAN, q CHAR(5), r YEAR, t ENUM('x','y'), u MEDIUMINT)"
    );
    const insert =
      'INSERT INTO node_types (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, t, u) VALUES (' + '?, '.repeat(19) + '?)';
    const all = Buffer.from([...Array(256).keys()]);
    const moment = new Date(Date.UTC(2026, 11, 31, 23, 59, 59, 123));
    const values = [
      -128, 65535, -(2 ** 31), '9223372036854775807', 1.5, -1.25e100, '-12345.0123456789', TEXT, all, '2026-12-31', moment,
      '-11:03:05.25', 'y'.repeat(70_000) + 'é', Buffer.alloc(300_000), new Date(Date.UTC(2026, 2, 4, 5, 6, 7)), true, '',
      2026, 'y', -8388608,
    ];
    const [inserted] = await connection[way](insert, values);
    say(`inserted ${inserted.affectedRows} ${inserted.insertId}`);
    await connection[way](insert, values.map(() => null));
    for (const [where, value] of [['id >= ?', 1], ['h = ?', TEXT], ['k <= ?', moment], ['g < ?', 0]]) {
      const [found, fields] = await connection[way](`SELECT * FROM node_types WHERE ${where} ORDER BY id`, [value]);
      if (where[0] === 'i') say(fields.map((field) => `${field.name}:${field.columnType}`).join(' '));
      rows(found, true);
    }
  }
  await connection.query('DROP TABLE node_types');
  await connection.end();
}

// Row by row, as events and as a stream that is read slowly.
async function streaming(target) {
  const connection = await promise.createConnection(target);
  await connection.query('DROP TABLE IF EXISTS node_rows');
  await connection.query('CREATE TABLE node_rows (n INT PRIMARY KEY, s VARCHAR(500))');
  for (let start = 0; start < 10_000; start += 1000) {
    const values = [...Array(1000).keys()].map((i) => [start + i, 'é'.repeat((start + i) % 300)]);
    await connection.query('INSERT INTO node_rows (n, s) VALUES ?', [values]);
  }
  let count = 0;
  let sum = 0;
  const plain = mysql.createConnection(target);
  for await (const one of plain.query('SELECT n, s FROM node_rows ORDER BY n').stream({ highWaterMark: 10 })) {
    count += 1;
    sum += one.n * 31 + one.s.length;
    if (count % 1000 === 0) await new Promise(setImmediate);
  }
  say(`${count} rows, ${sum}`);
  count = 0;
  await new Promise((resolve, reject) => {
    plain
      .execute('SELECT n FROM node_rows WHERE n >= ? ORDER BY n', [100])
      .on('result', () => (count += 1))
      .on('error', reject)
      .on('end', resolve);
  });
  say(`${count} rows`);
  plain.destroy(); // without a word to the server
  rows((await connection.query('SELECT COUNT(*) FROM node_rows'))[0]);
  await connection.query('DROP TABLE node_rows');
  await connection.end();
}

// The callback interface, with a nested transaction as programs wrote it before promises.
function callbacks(target) {
  const connection = mysql.createConnection(target);
  return new Promise((resolve, reject) => {
    const check = (next) => (error, ...results) => (error ? reject(error) : next(...results));
    connection.query('CREATE TEMPORARY TABLE node_callbacks (n INT PRIMARY KEY)', check(() =>
      connection.beginTransaction(check(() =>
        connection.execute('INSERT INTO node_callbacks VALUES (?)', [1], check((result) => {
          say(`inserted ${result.affectedRows}`);
          connection.rollback(check(() =>
            connection.query('SELECT COUNT(*) AS n FROM node_callbacks', check((found) => {
              rows(found);
              connection.ping(check(() => connection.end(check(resolve))));
            }))));
        }))))));
  });
}

async function transactions(target) {
  const [one, two] = [await promise.createConnection(target), await promise.createConnection(target)];
  await one.query('DROP TABLE IF EXISTS node_account');
  await one.query('CREATE TABLE node_account (id INT PRIMARY KEY, balance INT) ENGINE=InnoDB');
  for (const end of ['rollback', 'commit']) {
    await one.beginTransaction();
    await one.execute('INSERT INTO node_account VALUES (?, ?), (?, ?)', [1, 100, 2, 100]);
    await one.query('SAVEPOINT here');
    await one.query('DELETE FROM node_account');
    await one.query('ROLLBACK TO here');
    rows((await two.query('SELECT COUNT(*) FROM node_account'))[0]);
    await one[end]();
    rows((await two.query('SELECT COUNT(*) FROM node_account'))[0]);
  }
  const [changed] = await one.query('UPDATE node_account SET balance = 100');
  say(`found ${changed.affectedRows}, changed ${changed.changedRows}`);
  await one.query('DROP TABLE node_account');
  await one.end();
  await two.end();
}

async function errors(target) {
  const connection = await promise.createConnection(target);
  await connection.query('DROP TABLE IF EXISTS node_errors');
  await connection.query('CREATE TABLE node_errors (id INT PRIMARY KEY, s VARCHAR(3) NOT NULL)');
  await connection.query("INSERT INTO node_errors VALUES (1, 'a')");
  for (const way of ['query', 'execute']) {
    for (const sql of [
      "INSERT INTO node_errors VALUES (1, 'b')",
      'INSERT INTO node_errors VALUES (2, NULL)',
      "INSERT INTO node_errors VALUES (2, 'too long')",
      'INSERT INTO node_errors (nope) VALUES (2)',
      'INSERT INTO node_missing VALUES (1)',
      'SELEC 1',
    ]) {
      await refused(sql, () => connection[way](sql));
    }
  }
  rows((await connection.query('SELECT COUNT(*) FROM node_errors'))[0]);
  await connection.query('DROP TABLE node_errors');
  await connection.end();
  await refused('unknown database', () => promise.createConnection({ ...target, database: 'node_no_such_database' }));
}

async function several_results(target) {
  const connection = await promise.createConnection({ ...target, multipleStatements: true });
  const [results] = await connection.query(
    "CREATE TEMPORARY TABLE node_several (n INT); INSERT INTO node_several VALUES (1), (2); SELECT n FROM node_several; SELECT ';', ?",
    ["it's"]
  );
  for (const result of results) Array.isArray(result) ? rows(result) : say(`count ${result.affectedRows}`);
  await refused('the second fails', () => connection.query('SELECT 1; SELECT * FROM node_missing; SELECT 2'));
  rows((await connection.query('SELECT COUNT(*) FROM node_several'))[0]);
  await connection.end();
  const single = await promise.createConnection(target);
  await refused('not allowed', () => single.query('SELECT 1; SELECT 2'));
  await single.end();
}

async function session(target) {
  const connection = await promise.createConnection({ ...target, charset: 'utf8mb4_bin' });
  await connection.query("SET @mine = 7, time_zone = '+02:00'");
  rows((await connection.query('SELECT @mine, @@session.time_zone'))[0]);
  await connection.changeUser({ user: target.user, database: target.database });
  rows((await connection.query('SELECT @mine'))[0]);
  const statement = await connection.prepare('SELECT ? + 1 AS more');
  for (const n of [1, 2]) rows((await statement.execute([n]))[0]);
  await statement.close();
  rows((await connection.query({ sql: 'SELECT 1 AS a, 2 AS a', rowsAsArray: true }))[0]);
  const [nested] = await connection.query({ sql: "SELECT 'x' AS s FROM (SELECT 1) AS t", nestTables: true });
  rows(nested);
  await connection.end();
}

async function pool(target) {
  const connections = promise.createPool({ ...target, connectionLimit: 4, maxIdle: 2, enableKeepAlive: true });
  await connections.query('DROP TABLE IF EXISTS node_pool');
  await connections.query('CREATE TABLE node_pool (n INT PRIMARY KEY)');
  await Promise.all([...Array(100).keys()].map((n) => connections.execute('INSERT INTO node_pool VALUES (?)', [n])));
  rows((await connections.query('SELECT COUNT(*), CAST(SUM(n) AS CHAR) FROM node_pool'))[0]);
  const killed = await connections.getConnection();
  const id = killed.threadId;
  killed.on('error', () => {});
  await connections.query(`KILL ${id}`);
  await refused('on a killed connection', async () => {
    try {
      await killed.query('SELECT 1');
    } catch (error) {
      throw new Error(error.fatal ? 'gone' : code(error)); // which of the ways to hear of it comes first is open
    }
  });
  killed.destroy();
  rows((await connections.query('SELECT COUNT(*) FROM node_pool'))[0]);
  await connections.query('DROP TABLE node_pool');
  await connections.end();
}

async function compressed(target) {
  const connection = await promise.createConnection({ ...target, compress: true });
  await connection.query('DROP TABLE IF EXISTS node_compressed');
  await connection.query('CREATE TABLE node_compressed (n INT PRIMARY KEY, x LONGBLOB)');
  for (const size of [0, 1, 49, 50, 51, 5000, 16_385, 1_000_000]) {
    const content = Buffer.from(Array.from({ length: size }, (_, i) => (i * i * 31 + (i >> 3)) % 251));
    await connection.execute('INSERT INTO node_compressed VALUES (?, ?)', [size, content]);
  }
  rows((await connection.query('SELECT n, x, CRC32(x) FROM node_compressed ORDER BY n'))[0]);
  rows((await connection.execute('SELECT x FROM node_compressed WHERE n > ? ORDER BY n', [50]))[0]);
  await refused('an error', () => connection.query('SELECT * FROM node_missing'));
  await connection.query('DROP TABLE node_compressed');
  await connection.end();
}

// The driver's own timeout: it gives the connection up.
async function timeouts(target) {
  const connection = await promise.createConnection(target);
  connection.on('error', () => {});
  await refused('timeout', () => connection.query({ sql: 'SELECT SLEEP(8)', timeout: 300 }));
  connection.destroy();
  const other = await promise.createConnection(target);
  row((await other.query("SELECT 'goes on'"))[0][0]);
  await other.end();
}

module.exports = { types, streaming, callbacks, transactions, errors, several_results, session, pool, compressed, timeouts };
