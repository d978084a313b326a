"""The address of a SQL Server: read from a URL, written as a connection string. Holds the secret and never shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from dpone_dagster.campaign.errors import ConnectionInvalid

DEFAULT_PORT = 1433
_FORM = "mssql://user:secret@host:1433/database?encrypt=yes"
_YES_NO = frozenset({"yes", "no"})
# URL option → (keyword of the connection string, allowed values; None for any).
_OPTIONS: Mapping[str, tuple[str, frozenset[str] | None]] = {
    "encrypt": ("Encrypt", frozenset({"yes", "no", "mandatory", "optional", "strict"})),
    "trust_server_certificate": ("TrustServerCertificate", _YES_NO),
    "hostname_in_certificate": ("HostnameInCertificate", None),
    "server_certificate": ("ServerCertificate", None),
    "multi_subnet_failover": ("MultiSubnetFailover", _YES_NO),
    "authentication": ("Authentication", None),
}
# Encrypt and verify unless the URL says otherwise.
_DEFAULTS = {"Encrypt": "yes", "TrustServerCertificate": "no"}


@dataclass(frozen=True)
class Address:
    """Where a database is and how to log in.

    Attributes:
        host: Name or address.
        port: Of the server.
        database: The database; session, locks and tables belong to it.
        user: Login; None for integrated security.
        secret: Its password; never shown.
        options: Further keywords of the connection string, encryption among them.
    """

    host: str
    port: int
    database: str
    user: str | None
    secret: str | None = field(repr=False)
    options: Mapping[str, str]

    @classmethod
    def parse(cls, url: str) -> Address:
        """Read a URL; names and password may be percent-encoded.

        Args:
            url: `mssql://user:secret@host:1433/database?encrypt=yes`.

        Raises:
            ConnectionInvalid: What is wrong with it, without its secret.
        """
        try:
            parts = urlsplit(url)
            port = parts.port or DEFAULT_PORT
        except ValueError:
            raise ConnectionInvalid(f"the URL cannot be read; its form is {_FORM}") from None
        if parts.scheme != "mssql":
            raise ConnectionInvalid(f"the URL's scheme is not `mssql`; its form is {_FORM}")
        database = unquote(parts.path.removeprefix("/"))
        if not parts.hostname or not database:
            raise ConnectionInvalid(f"the URL names no {'database' if parts.hostname else 'host'}; its form is {_FORM}")
        return cls(
            host=parts.hostname,
            port=port,
            database=database,
            user=unquote(parts.username) if parts.username else None,
            secret=unquote(parts.password) if parts.password is not None else None,
            options={**_DEFAULTS, **_options(parts.query)},
        )

    def keywords(self) -> dict[str, str]:
        """What every Microsoft driver's connection string needs, secret included."""
        login = {"Trusted_Connection": "yes"}
        if self.user is not None:
            login = {"UID": self.user, "PWD": self.secret or ""}
        elif "Authentication" in self.options:
            login = {}
        return {"Server": f"tcp:{self.host},{self.port}", "Database": self.database, **login, **self.options}


def connection_string(keywords: Mapping[str, str]) -> str:
    """`Key={value};…`, every value in braces, so that no character of it can be read as another keyword."""
    return "".join(f"{key}={{{value.replace('}', '}}')}}};" for key, value in keywords.items())


def _options(query: str) -> dict[str, str]:
    found = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in _OPTIONS:
            raise ConnectionInvalid(f"the URL's option `{name}` is unknown; known are {', '.join(sorted(_OPTIONS))}")
        keyword, allowed = _OPTIONS[name]
        if allowed is not None and value.lower() not in allowed:
            raise ConnectionInvalid(f"the URL's option `{name}` has to be one of {', '.join(sorted(allowed))}")
        found[keyword] = value.lower() if allowed is not None else value
    return found
