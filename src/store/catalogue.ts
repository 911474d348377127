import { queryOn, type Reader } from './database';

/** The tables as the engine's own catalogue tells them. */
export interface Shape {
  engine: Reader['connection']['engine'];
  tables: Table[];
}

export interface Table {
  name: string;
  columns: { name: string; type: string }[];
  primaryKey: string[];
  references: { column: string; parent: string; parentColumn: string }[];
}

const SQLITE_TABLES = `sqlite_master as m where m.type = 'table' and m.name not like 'sqlite%' and m.name not like 'knex%'`;
const POSTGRES_OURS = `r.relnamespace = (select oid from pg_namespace where nspname = current_schema())
  and r.relkind = 'r' and r.relname not like 'knex%'`;

/** Columns in their order, keys and references, of all tables but the migrations' own. */
const CATALOGUE = {
  sqlite: {
    columns: `select m.name as its_table, c.name, lower(c.type) as type, c.pk as key_place, c.cid as place
      from (select name from ${SQLITE_TABLES}) as m join pragma_table_info(m.name) as c`,
    references: `select m.name as its_table, f."from" as name, f."table" as parent, f."to" as parent_column
      from (select name from ${SQLITE_TABLES}) as m join pragma_foreign_key_list(m.name) as f`,
  },
  postgres: {
    columns: `select r.relname as its_table, a.attname as name, format_type(a.atttypid, null) as type, a.attnum as place,
        coalesce((select array_position(k.conkey, a.attnum) from pg_constraint as k
          where k.conrelid = r.oid and k.contype = 'p'), 0) as key_place
      from pg_class as r join pg_attribute as a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
      where ${POSTGRES_OURS}`,
    references: `select r.relname as its_table, a.attname as name, p.relname as parent, b.attname as parent_column
      from pg_constraint as k join pg_class as r on r.oid = k.conrelid join pg_class as p on p.oid = k.confrelid
      join pg_attribute as a on a.attrelid = r.oid and a.attnum = k.conkey[1]
      join pg_attribute as b on b.attrelid = p.oid and b.attnum = k.confkey[1]
      where k.contype = 'f' and ${POSTGRES_OURS}`,
  },
};

interface CatalogueRow {
  its_table: string;
  name: string;
  type: string;
  place: number;
  key_place: number;
  parent: string;
  parent_column: string;
}

/** The shape of the database as it is, not as it should be. */
export async function readShape(reader: Reader): Promise<Shape> {
  const { engine } = reader.connection;
  const knex = queryOn(reader);
  const read = (sql: string, ...order: string[]): Promise<CatalogueRow[]> =>
    knex
      .select('*')
      .from(knex.raw(`(${sql}) as catalogue`))
      .orderBy(order);
  const columns = await read(CATALOGUE[engine].columns, 'its_table', 'place');
  const references = await read(CATALOGUE[engine].references, 'its_table', 'name');

  return {
    engine,
    tables: [...new Set(columns.map((row) => row.its_table))].map((name) => {
      const own = columns.filter((row) => row.its_table === name);
      const keys = own.filter((row) => row.key_place > 0).sort((a, b) => a.key_place - b.key_place);
      return {
        name,
        columns: own.map((row) => ({ name: row.name, type: row.type })),
        primaryKey: (keys.length > 0 ? keys : own.slice(0, 1)).map((row) => row.name),
        references: references
          .filter((row) => row.its_table === name)
          .map((row) => ({ column: row.name, parent: row.parent, parentColumn: row.parent_column })),
      };
    }),
  };
}
