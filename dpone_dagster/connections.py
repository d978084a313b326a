"""Connection URLs by their reference: the only way credentials come in. They never leave through a text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qs, urlsplit

from dpone_dagster.campaign.errors import ConnectionInvalid, ConnectionMissing, Finding

ServerKind = Literal["postgres", "mssql"]
ENVIRONMENT_PREFIX = "DPONE_CONNECTION_"
FILE_VARIABLE = "DPONE_CONNECTIONS_FILE"

_SCHEME = re.compile(r"([a-z][a-z0-9+]{0,30})://", re.IGNORECASE)
_SCHEMES: Mapping[ServerKind, tuple[str, ...]] = {"postgres": ("postgresql", "postgres"), "mssql": ("mssql",)}
_FORMS: Mapping[ServerKind, str] = {
    "postgres": "postgresql://user:password@host:5432/database",
    "mssql": "mssql://user:password@host:1433/database?encrypt=yes",
}
_DATABASE_OPTIONS = frozenset({"dbname", "database", "service"})


class ConnectionUrl:
    """A URL with its secrets. No text form of this object shows more than the scheme.

    Args:
        url: The whole URL.
    """

    __slots__ = ("_url",)

    def __init__(self, url: str) -> None:
        self._url = url

    def __repr__(self) -> str:
        return f"ConnectionUrl({self.scheme or '?'}://***)"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConnectionUrl) and self._url == other._url

    def __hash__(self) -> int:
        return hash(self._url)

    @property
    def scheme(self) -> str | None:
        """Such as `postgresql`; None where the text is not a URL."""
        match = _SCHEME.match(self._url)
        return match[1].lower() if match else None

    def reveal(self) -> str:
        """The whole URL, for a driver only."""
        return self._url


@dataclass(frozen=True)
class Connections:
    """The URLs that this process may use, by upper-case reference."""

    urls: Mapping[str, ConnectionUrl]

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Connections:
        """Read `DPONE_CONNECTION_<REF>` variables and the file of `DPONE_CONNECTIONS_FILE`; a variable wins.

        Raises:
            ConnectionInvalid: The file cannot be read, or is not a mapping of references to URLs.
        """
        urls = _file_urls(Path(environ[FILE_VARIABLE])) if environ.get(FILE_VARIABLE) else {}
        for name, value in environ.items():
            if name.startswith(ENVIRONMENT_PREFIX) and value.strip():
                urls[name.removeprefix(ENVIRONMENT_PREFIX).upper()] = ConnectionUrl(value.strip())
        return cls(urls)

    def url(self, ref: str, kind: ServerKind) -> ConnectionUrl:
        """The URL of a reference, checked to be one for that kind of server.

        Args:
            ref: `connection_ref` of a manifest.
            kind: The manifest's `type` beside it.

        Raises:
            ConnectionMissing: Nothing names it.
            ConnectionInvalid: It is not a URL for such a server.
        """
        variable = f"{ENVIRONMENT_PREFIX}{ref.upper()}"
        url = self.urls.get(ref.upper())
        if url is None:
            raise ConnectionMissing(
                f"connection `{ref}` has no URL",
                findings=[Finding(variable, "is not set", f"set it to {_FORMS[kind]}")],
                next_step=f"Set {variable} to a URL, or name `{ref}` in the file of {FILE_VARIABLE}.",
            )
        if problem := _problem(url, kind):
            raise ConnectionInvalid(
                f"connection `{ref}` cannot be used",
                findings=[Finding(variable, problem, f"write {_FORMS[kind]}")],
            )
        return url


def _problem(url: ConnectionUrl, kind: ServerKind) -> str | None:
    """What is wrong with a URL, without a word of it but the scheme."""
    scheme = url.scheme
    if scheme is None:
        return "is not a URL"
    if scheme not in _SCHEMES[kind]:
        return f"scheme is `{scheme}`, but the manifest says type `{kind}`"
    try:
        parts = urlsplit(url.reveal())
        _ = parts.port
        if parts.netloc.count("@") > 1:
            return "user or password contains an `@` (write it as %40)"
    except ValueError:
        return "host or port cannot be read (percent-encode special characters in user and password)"
    if not parts.path.strip("/") and not _DATABASE_OPTIONS & parse_qs(parts.query).keys():
        return "names no database"
    if kind == "mssql" and not parts.hostname:
        return "names no host"
    return None


def _file_urls(path: Path) -> dict[str, ConnectionUrl]:
    import yaml  # most environments have no such file

    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
        raise _file_refused(path, f"cannot be read: {reason}") from None
    except yaml.YAMLError as error:
        # The parser's own text quotes the line, and with it the secret.
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise _file_refused(path, f"is not valid YAML or JSON{where}") from None
    if not isinstance(data, dict) or not all(isinstance(p, str) for pair in data.items() for p in pair):
        raise _file_refused(path, "is not a mapping of references to URLs")
    urls = {ref.upper(): ConnectionUrl(url.strip()) for ref, url in data.items()}
    if len(urls) < len(data):
        raise _file_refused(path, "names a reference twice (upper and lower case are one)")
    return urls


def _file_refused(path: Path, problem: str) -> ConnectionInvalid:
    return ConnectionInvalid(
        f"the connections file of {FILE_VARIABLE} cannot be used",
        findings=[Finding(str(path), problem, "write one `reference: URL` a line")],
        next_step=f"Correct the file, or unset {FILE_VARIABLE}.",
    )
