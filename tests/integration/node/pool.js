'use strict';
// A pool of one connection: each line of the input is a statement, run on the connection that the pool gives for it, and
// answered with a line: what was in the first row, or the error.

const readline = require('node:readline');
const mysql = require('mysql2/promise');
const { say, code } = require('./print');

async function statements(target) {
  const pool = mysql.createPool({ ...target, connectionLimit: 1 });
  for await (const sql of readline.createInterface({ input: process.stdin, crlfDelay: Infinity })) {
    await new Promise(setImmediate); // the pool hears first of sockets that have ended by now
    try {
      const [rows] = await pool.query(sql);
      say(`= ${Array.isArray(rows) && rows.length ? Object.values(rows[0])[0] : 'nothing'}`);
    } catch (error) {
      say(`error ${code(error)}`);
    }
  }
  await pool.end();
}

module.exports = { statements };
