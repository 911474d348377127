/** Preloaded into a server process: it kills itself, as `kill -9` does, right before its KILL_AT-th SQL statement. */
const { Client } = require('pg');
const BetterSqlite = require('better-sqlite3');

let left = Number(process.env.KILL_AT);

function countDown() {
  left -= 1;
  if (left === 0) process.kill(process.pid, 'SIGKILL');
}

for (const [prototype, names] of [
  [Client.prototype, ['query']],
  [BetterSqlite.prototype, ['prepare', 'exec', 'pragma']],
]) {
  for (const name of names) {
    const original = prototype[name];
    prototype[name] = function counted(...given) {
      countDown();
      return original.apply(this, given);
    };
  }
}
process.on('exit', () => {
  process.stderr.write(`${Number(process.env.KILL_AT) - left} statements\n`);
});
