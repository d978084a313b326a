"""A private PostgreSQL that can be restarted under whoever is connected."""

from __future__ import annotations

import signal
import threading
from typing import Literal

from demo.embedded import Embedded

Mode = Literal["fast", "immediate"]
_SIGNALS = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}
_STOP_SECONDS = 60


class Restartable(Embedded):
    """`fast` ends every session and shuts down; `immediate` lets the server recover as after a crash."""

    _restarting = threading.Lock()

    def restart(self, mode: Mode) -> None:
        """Stop it and start it again, at the same address.

        Args:
            mode: As `pg_ctl stop -m` has it.
        """
        with self._restarting:
            process = self._server.get_postmaster_info().process
            assert process is not None
            process.send_signal(_SIGNALS[mode])
            process.wait(_STOP_SECONDS)
            self._server.ensure_postgres_running()
