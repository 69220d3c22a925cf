'use strict';
// How values, rows and errors are written into the transcript: one line each, long values as length and checksum.

const crypto = require('node:crypto');

const LONG = 200;

function say(line) {
  process.stdout.write(line + '\n');
}

function checksum(bytes) {
  return `${bytes.length} bytes, sha1 ${crypto.createHash('sha1').update(bytes).digest('hex').slice(0, 12)}`;
}

function shown(value) {
  if (value === null || value === undefined) return 'NULL';
  if (Buffer.isBuffer(value)) return value.length > LONG ? checksum(value) : '0x' + value.toString('hex');
  if (value instanceof Date) return value.toISOString();
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value);
  return text.length > LONG ? checksum(Buffer.from(text)) : text;
}

function kind(value) {
  if (value === null || value === undefined) return '';
  return ' : ' + (typeof value === 'object' ? value.constructor.name : typeof value);
}

function row(values, types = false) {
  say('row | ' + Object.values(values).map((value) => shown(value) + (types ? kind(value) : '')).join(' | '));
}

function rows(list, types = false) {
  for (const one of list) row(one, types);
}

// A server's error as its number and state, without words: they differ between servers.
function code(error) {
  return error.errno > 0 ? `${error.errno} ${error.sqlState}` : `${error.code || error}`;
}

async function refused(what, action) {
  try {
    await action();
    say(`${what}: not refused`);
  } catch (error) {
    say(`${what}: ${code(error)}`);
  }
}

module.exports = { say, row, rows, code, refused };
