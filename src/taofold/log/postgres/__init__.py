"""A log, and a journal, in a PostgreSQL database: for more than one machine.

`database` holds the connections, `schema` the tables and the functions that write, `log` and
`journal` are what the rest of the house sees. They need psycopg 3 (`pip install
'taofold[postgres]'`), which is imported only here.
"""

from taofold.log.postgres.database import Database
from taofold.log.postgres.journal import PostgresJournal
from taofold.log.postgres.log import PostgresLog

__all__ = ["Database", "PostgresJournal", "PostgresLog"]
