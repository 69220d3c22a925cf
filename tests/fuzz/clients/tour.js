// What mysql2 says: text, prepared statements with every kind of parameter, several results, a changed user, a stream.
const mysql = require('mysql2/promise');
const port = Number(process.argv[2]);

async function main() {
  const options = { host: '127.0.0.1', port, user: 'root', database: 'main', multipleStatements: true };
  const connection = await mysql.createConnection(options);
  await connection.query('SELECT 1');
  await connection.query('SELECT id, name, n, d FROM ft ORDER BY id LIMIT 2; SELECT 2');
  await connection.execute('SELECT ? + 1 AS a, ? AS b, ? AS c', [41, 'text', null]);
  await connection.execute('INSERT INTO ft (name, n, d, b) VALUES (?, ?, ?, ?)', ['mysql2', '1.50', new Date(0), Buffer.from([0, 255])]);
  await connection.query('SELECT * FROM nowhere').catch(() => undefined);
  await connection.beginTransaction();
  await connection.query("INSERT INTO fq (payload) VALUES ('from mysql2')");
  await connection.commit();
  await connection.query('SELECT id, payload FROM STREAM fq LIMIT 1 NOWAIT');
  await connection.query('ACK fq 1');
  await connection.changeUser({ user: 'app', password: 'secret', database: 'main' });
  await connection.ping();
  await connection.end();
  await mysql.createConnection({ ...options, user: 'app', password: 'wrong' }).catch(() => undefined);
}

main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
