"""A log, and a journal, in a PostgreSQL database: for more than one machine.

`database` holds the connections, `schema` the tables and the writing functions, `log` and `journal`
the public classes. They need psycopg 3 (`pip install 'taofold[postgres]'`), which is imported only
here.
"""

from taofold.log.postgres.database import Database
from taofold.log.postgres.journal import PostgresJournal
from taofold.log.postgres.log import PostgresLog
from taofold.log.uncertain_writes import CertainLog

__all__ = ["Database", "PostgresJournal", "PostgresLog", "open_postgres"]


def open_postgres(dsn: str) -> CertainLog:
    """Returns the opened log at `dsn`."""
    log = PostgresLog(dsn)
    log.open()
    # Only a log behind a network can lose the answer to a completed write.
    return CertainLog(log)
