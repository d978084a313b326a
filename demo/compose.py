"""The SQL Server of deploy/compose.yaml: started by whatever container engine is there."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Sequence
from pathlib import Path

from dpone_dagster.campaign.errors import ServerUnreachable

PORT = 14330
_COMMANDS = (("docker", "compose"), ("docker-compose",), ("podman", "compose"), ("podman-compose",))
_SECRET_VARIABLE = "MSSQL_SA_PASSWORD"
_PROBE_SECONDS = 20


class Compose:
    """The services of one compose file, with a password that is made for them and kept beside the demo's files.

    Args:
        file: The compose file.
        secret_file: Where the password of `sa` is, or will be.
    """

    def __init__(self, file: Path, secret_file: Path) -> None:
        self._file = file
        self._secret_file = secret_file

    @property
    def was_used(self) -> bool:
        """Whether it was ever started from here."""
        return self._secret_file.exists()

    def secret(self) -> str:
        """The password; made at the first call, readable by its owner only."""
        if not self.was_used:
            self._secret_file.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._secret_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                # The server wants three of: upper case, lower case, digits, signs.
                file.write(f"Aa1-{secrets.token_hex(16)}")
        return self._secret_file.read_text()

    def engine(self) -> Sequence[str] | None:
        """The first compose command whose engine answers; None if none does."""
        return next((command for command in _COMMANDS if self._answers(command)), None)

    def up(self, engine: Sequence[str]) -> None:
        """Start the services, or leave them running.

        Raises:
            ServerUnreachable: The engine could not.
        """
        if not self._done(engine, "up", "--detach"):
            raise ServerUnreachable(
                f"`{' '.join(engine)}` could not start SQL Server (its own message is above)",
                next_step="Mend what the engine says, or set DPONE_CONNECTION_MSSQL_DWH to a server that runs already.",
            )

    def down(self, *, volumes: bool) -> bool:
        """Stop and remove the containers; their data too if asked for. False if there is nothing to stop."""
        engine = self.engine() if self.was_used else None
        return engine is not None and self._done(engine, "down", *(["--volumes"] if volumes else []))

    def _done(self, engine: Sequence[str], *arguments: str) -> bool:
        environment = {**os.environ, _SECRET_VARIABLE: self.secret()}
        return not subprocess.run(self._command(engine, *arguments), env=environment, check=False).returncode

    def _answers(self, engine: Sequence[str]) -> bool:
        # The file cannot be read without a password; here any will do.
        environment = {**os.environ, _SECRET_VARIABLE: "none"}
        try:
            found = subprocess.run(
                self._command(engine, "ps"), env=environment, capture_output=True, timeout=_PROBE_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        return not found.returncode

    def _command(self, engine: Sequence[str], *arguments: str) -> list[str]:
        return [*engine, "--file", str(self._file), *arguments]
