'use strict';
// What takes a database server behind: stored programs, LOAD DATA, packets over 16 MiB.

const { Readable } = require('node:stream');
const promise = require('mysql2/promise');
const { say, rows, refused } = require('./print');

async function procedures(target) {
  const connection = await promise.createConnection(target);
  await connection.query('DROP PROCEDURE IF EXISTS node_totals');
  await connection.query(
    'CREATE PROCEDURE node_totals (IN a INT, OUT b INT) BEGIN SELECT a AS first; SELECT 7, 8; SET b = a * 2; END'
  );
  for (const way of ['query', 'execute']) {
    const [results] = await connection[way]('CALL node_totals(?, @b)', [3]);
    for (const result of results) Array.isArray(result) ? rows(result) : say(`count ${result.affectedRows}`);
    rows((await connection.query('SELECT @b'))[0]);
  }
  try {
    await connection.query("SIGNAL SQLSTATE '45001' SET MESSAGE_TEXT = 'ours: Größe', MYSQL_ERRNO = 5001");
  } catch (error) {
    say(`signal ${error.errno} ${error.sqlState} ${error.sqlMessage}`);
  }
  const [result] = await connection.query('INSERT IGNORE INTO mysql.no_such_table VALUES (1)').catch((error) => [error]);
  say(`${result.sqlMessage}`);
  await connection.query('DROP PROCEDURE node_totals');
  await connection.end();
}

async function load_data(target) {
  const connection = await promise.createConnection(target);
  await connection.query('DROP TABLE IF EXISTS node_load');
  await connection.query('CREATE TABLE node_load (n INT, s VARCHAR(40))');
  const lines = [...Array(20_000).keys()].map((n) => Buffer.from(`${n}\trow ${n} é\n`));
  const sql = "LOAD DATA LOCAL INFILE 'anything' INTO TABLE node_load CHARACTER SET utf8mb4";
  const [loaded] = await connection.query({ sql, infileStreamFactory: () => Readable.from(lines) });
  say(`loaded ${loaded.affectedRows}: ${loaded.info}`);
  rows((await connection.query('SELECT COUNT(*), CAST(SUM(n) AS CHAR), MAX(s) FROM node_load'))[0]);
  await connection.query('DROP TABLE node_load');
  await connection.end();
  const other = await promise.createConnection(target);
  other.on('error', () => {});
  await refused('not allowed', () => other.query(sql));
  other.destroy();
}

async function large(target) {
  const connection = await promise.createConnection(target);
  await connection.query('DROP TABLE IF EXISTS node_large');
  await connection.query('CREATE TABLE node_large (id INT AUTO_INCREMENT PRIMARY KEY, x LONGBLOB)');
  const content = Buffer.alloc(18 << 20);
  for (let i = 0; i < content.length; i += 4096) content.writeUInt32LE(i * 31, i);
  await connection.query('INSERT INTO node_large (x) VALUES (?)', [content]);
  await connection.execute('INSERT INTO node_large (x) VALUES (?)', [content]);
  rows((await connection.query('SELECT id, LENGTH(x), CRC32(x) FROM node_large ORDER BY id'))[0]);
  rows((await connection.execute('SELECT x, id FROM node_large WHERE id = ?', [1]))[0]);
  await connection.query('DROP TABLE node_large');
  await connection.end();
}

module.exports = { procedures, load_data, large };
