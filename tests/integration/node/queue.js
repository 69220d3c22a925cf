'use strict';
// A queue in plain SQL, start to end. Every language's client tells the same story; the test knows it by heart.

const mysql = require('mysql2');
const promise = require('mysql2/promise');
const { say, rows, code } = require('./print');

const QUEUE = 'node_queue';

async function queue(target) {
  const connection = await promise.createConnection(target);
  await connection.query(`DROP QUEUE IF EXISTS ${QUEUE}`);
  await connection.query(`CREATE QUEUE ${QUEUE} (n INT, payload VARCHAR(100), body BLOB) WITH (ack_wait = '5m')`);
  await enqueue(connection);
  await receive(connection);
  await settle(connection);
  await stream(target, connection);
  await states(connection);
  await connection.query(`DROP QUEUE ${QUEUE}`);
  await connection.end();
}

async function enqueue(connection) {
  const insert = `INSERT INTO ${QUEUE} (n, payload, body) VALUES (?, ?, ?)`;
  await connection.beginTransaction();
  await connection.execute(insert, [0, 'undone', null]);
  await connection.rollback();
  await connection.beginTransaction();
  let count = 0;
  for (const values of [
    [10, 'Größe 🎉 日本', Buffer.from('00ff', 'hex')],
    [11, 'it\'s \\ "quoted" %s ?', null],
    [null, null, Buffer.alloc(0)],
  ]) {
    count += (await connection.execute(insert, values))[0].affectedRows;
  }
  await connection.commit();
  say(`enqueued ${count}`);
}

async function receive(connection) {
  const columns = `SELECT n, payload, body FROM STREAM ${QUEUE}`;
  rows((await connection.query(`${columns} LIMIT 2`))[0]);
  rows((await connection.execute(`${columns} LIMIT ? WAIT ?`, [1, 10]))[0]);
  for (const nothing of ['LIMIT 5 NOWAIT', 'LIMIT 5 WAIT 0.1']) {
    const [due] = await connection.execute(`${columns} ${nothing}`);
    say(`due: ${due.length ? 'something' : 'nothing'}`);
  }
}

async function settle(connection) {
  for (const n of [10, 10, 11]) {
    const [[{ id }]] = await connection.execute(`SELECT id FROM ${QUEUE} WHERE n = ?`, [n]);
    say(`acked ${(await connection.execute(`ACK ${QUEUE} ?`, [id]))[0].affectedRows}`);
  }
  await connection.beginTransaction();
  say(`acked ${(await connection.query(`ACK ${QUEUE} WHERE payload IS NULL`))[0].affectedRows}`);
  await connection.rollback();
  await states(connection);
  await connection.query(`ACK ${QUEUE}_missing 1`).catch((error) => say(`error ${code(error)}`));
}

// Row by row, each acked on the other connection before the next is sent; ended by KILL QUERY.
async function stream(target, other) {
  const receiver = mysql.createConnection(target);
  const id = (await receiver.promise().query('SELECT CONNECTION_ID() AS id'))[0][0].id;
  const messages = receiver.query(`SELECT id, n FROM STREAM ${QUEUE}`).stream({ highWaterMark: 1 });
  const send = (n) => other.query(`INSERT INTO ${QUEUE} (n) VALUES (?)`, [n]);
  await send(100);
  try {
    for await (const message of messages) {
      const [acked] = await other.query(`ACK ${QUEUE} ?`, [message.id]);
      say(`streamed ${message.n}, acked ${acked.affectedRows}`);
      await (message.n < 104 ? send(message.n + 1) : other.query(`KILL QUERY ${id}`));
    }
    say('not ended');
  } catch (error) {
    say(`ended ${code(error)}`);
  }
  say(`goes on ${(await receiver.promise().query('SELECT 1 AS one'))[0][0].one}`);
  receiver.end();
}

async function states(connection) {
  const [found] = await connection.query(`SELECT state, COUNT(*) AS n FROM ${QUEUE} GROUP BY state ORDER BY 1`);
  for (const { state, n } of found) say(`${state} ${n}`);
}

module.exports = { queue };
