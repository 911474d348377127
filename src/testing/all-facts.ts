import type { Database } from '../store/database';

/** Everything that is stored, as text: equal before and after a refusal means that nothing was written. */
export async function allFacts(database: Database): Promise<string> {
  const { knex } = database.read;
  const tables: string[] =
    database.engine === 'sqlite'
      ? await knex('sqlite_master').where('type', 'table').whereNot('name', 'like', 'sqlite_%').pluck('name')
      : await knex('pg_tables').where('schemaname', 'public').pluck('tablename');
  const lines: string[] = [];
  for (const table of tables.filter((name) => !name.startsWith('knex_')).sort()) {
    const rows = await knex(table).select('*');
    lines.push(...rows.map((row) => `${table} ${JSON.stringify(row)}`).sort());
  }
  return lines.join('\n');
}
