'use strict';
// A client in JavaScript: runs sections named on the command line and prints what it saw, line by line. The transcript
// of a run through the proxy is compared with that of a run without it, so nothing that differs from run to run is
// printed.
//
// Arguments: host, port, user, database, sections.

const { say } = require('./print');

const [host, port, user, database, ...names] = process.argv.slice(2);
const target = { host, port: Number(port), user, database, connectTimeout: 20000, supportBigNumbers: true, timezone: 'Z' };
const sections = { ...require('./ordinary'), ...require('./server'), ...require('./queue'), ...require('./pool') };

async function main() {
  let failed = false;
  for (const name of names) {
    say(`== ${name}`);
    try {
      await sections[name](target);
      say('-- done');
    } catch (error) {
      say(`-- failed: ${error}`);
      console.error(error);
      failed = true;
    }
  }
  process.exit(failed ? 1 : 0);
}

setTimeout(() => {
  console.error('took too long');
  process.exit(2);
}, 100_000).unref();
main();
