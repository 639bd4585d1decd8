"""A PostgreSQL log as a side of a transfer, read or written in one transaction."""

from collections.abc import Iterable, Iterator
from typing import Any

import psycopg
from psycopg import sql

from taofold.log.postgres.database import Database
from taofold.log.postgres.psycopg_extras import explain, parse_dsn
from taofold.log.transfer import KEYS, TABLES, Row

_FETCHED = 500
_SPEND = (
    b"select scope, hour, sum(tokens)::bigint, sum(unpriced)::bigint, sum(nano_usd)::bigint "
    b"from (select * from taofold_spend union all "
    b"select scope, hour, tokens, unpriced, nano_usd from taofold_charges) as part "
    b"group by 1, 2 order by 1, 2"
)


class PostgresSide:
    """The tables, locked against writers while they are open here."""

    def __init__(self, dsn: str) -> None:
        self._database = Database(dsn)
        try:
            self._database.open()
            self._db: psycopg.Connection[Row] = psycopg.connect(parse_dsn(dsn)[0])
            # Charges that no total includes yet move with the totals.
            self._db.execute(b"lock table taofold_charges in share row exclusive mode")
            for table in TABLES:
                self._db.execute(
                    # Readers continue; writers wait until this transaction ends.
                    sql.SQL("lock table {} in share row exclusive mode").format(_name(table))
                )
        except psycopg.Error as error:
            self._database.close()
            raise explain(error, self._database.name) from error
        except BaseException:
            self._database.close()
            raise

    def rows(self, table: str) -> Iterator[Row]:
        """Yields all rows, in the order of their keys."""
        # A named cursor is on the server: a log need not fit into memory.
        with self._db.cursor(f"read_{table}") as cursor:
            cursor.itersize = _FETCHED
            if table == "held":
                cursor.execute("select 1 from taofold_leases where until > taofold_now()")
            elif table == "spend":
                cursor.execute(_SPEND)
            else:
                names = sql.SQL(", ").join(map(sql.Identifier, TABLES[table]))
                keys = sql.SQL(", ").join(map(sql.Literal, range(1, KEYS.get(table, 2) + 1)))
                statement = sql.SQL("select {} from {} order by {}")
                cursor.execute(statement.format(names, _name(table), keys))
            yield from cursor

    def put(self, table: str, rows: Iterable[Row]) -> None:
        """Writes rows."""
        names = sql.SQL(", ").join(map(sql.Identifier, TABLES[table]))
        try:
            with self._db.cursor() as cursor:
                # COPY bypasses the writing functions: places, epochs and numbers stay unchanged.
                statement = sql.SQL("copy {} ({}) from stdin").format(_name(table), names)
                with cursor.copy(statement) as copy:
                    for row in rows:
                        copy.write_row(row)
            if table in ("runs", "streams"):
                self._raise(table, "number")
            elif table == "inbox":
                self._raise(table, "place")
        except psycopg.Error as error:
            raise explain(error, self._database.name) from error

    def _raise(self, table: str, column: str) -> None:
        """Sets the sequence after the written numbers."""
        self._db.execute(
            sql.SQL(
                # Numbers were written explicitly, which does not advance the sequence.
                "select setval(pg_get_serial_sequence({}, {}), (select max({}) from {})) "
                "where exists (select from {})"
            ).format(
                sql.Literal(f"taofold_{table}"),
                sql.Literal(column),
                sql.Identifier(column),
                _name(table),
                _name(table),
            )
        )

    def chain_id(self) -> str:
        """Returns the id that the chains of this log cover."""
        row = self._db.execute(b"select value from taofold_meta where key = 'chain'").fetchone()
        return "" if row is None else str(row[0])

    def set_chain_id(self, chain: str) -> None:
        """Makes `chain` the id that the chains of this log cover."""
        self._db.execute(b"update taofold_meta set value = %s where key = 'chain'", (chain,))

    def commit(self) -> None:
        """Commits the writes."""
        try:
            self._db.commit()
        except psycopg.Error as error:
            raise explain(error, self._database.name) from error

    def close(self) -> None:
        """Closes the connections."""
        self._db.close()
        self._database.close()


def _name(table: str) -> Any:
    return sql.Identifier(f"taofold_{table}")
