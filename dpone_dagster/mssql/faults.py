"""Turns a driver's error into one of ours, once, by SQLSTATE of the driver and error number of the server."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dpone_dagster.campaign.errors import (
    ConnectionLost,
    DponeError,
    Interrupted,
    LoginRefused,
    ServerFull,
    ServerUnreachable,
    TransientFailure,
)

if TYPE_CHECKING:
    import pyodbc

# Only what the server itself says may succeed when tried again (Microsoft's list of system error messages).
TRANSIENT = frozenset(
    {
        1204,  # no lock memory
        1205,  # deadlock victim
        1222,  # lock time-out
        3960,  # snapshot update conflict
        701,  # no memory
        802,  # no buffer pool memory
        845,  # time-out waiting for a page
        8628,  # time-out while a plan was made
        8645,  # time-out waiting for memory
        8651,  # low memory condition
        10928,  # resource limit of the database
        10929,
        40501,  # service busy
        49918,  # too many requests
        49919,
        49920,
    }
)
LOST = frozenset(
    {
        596,  # session was killed
        983,  # availability database not accessible
        6002,  # shutdown in progress
        6005,
        10053,  # transport errors
        10054,
        10060,
        40143,
        40197,  # service moved the database
        40613,
    }
)
# Answers to a login that may be another one a moment later.
NOT_NOW = frozenset(
    {
        233,  # no more connections, or going down
        921,  # the database is not recovered yet
        922,
        952,  # the database is in transition
        976,  # its availability replica is not accessible, or not the primary one yet
        978,
        979,
        982,
        4221,  # the secondary waits for row versions
        17142,  # paused
        17187,  # not ready yet
        17188,  # shutting down
        17189,  # no thread for the connection
        17809,  # no more connections
        18401,  # upgrading its own databases
    }
)
# No space: trying again changes nothing until somebody makes some.
FULL = frozenset(
    {
        1101,  # no page in the filegroup
        1105,  # no space in the filegroup
        9002,  # transaction log full
    }
)
UNIQUE_VIOLATION = frozenset({2601, 2627})
_LOST_STATES = ("08", "IM", "HYT01")
_CUT, _TIMED_OUT = "HY008", "HYT00"
# What the driver says by itself, under the SQLSTATE of a lost connection, where no try will ever be encrypted as asked.
_NO_TLS = re.compile("SSL Provider|Encryption not supported on")
_NUMBER = re.compile(r"\((-?\d+)\)(?: \(SQL\w+\)|;|$)")
_PREFIX = re.compile(r"^(\[[^\]]*\]\s*)+")
_TAIL = re.compile(r"\s*\(-?\d+\) \(SQL\w+\).*$", re.DOTALL)
# Values that the server quotes: row content never reaches a message.
_CONTENT = re.compile(r"((?:value is|value:|value) )(\(.*\)|'.*'|\".*\")", re.DOTALL | re.IGNORECASE)

_TLS_ADVICE = (
    "Set up TLS on the server, with a certificate that this host trusts; or say otherwise in the URL: `encrypt=no` for "
    "a server without TLS, `trust_server_certificate=yes` for a certificate that nobody vouches for."
)


class ServerError(DponeError):
    """An error of the server that may not be tried again, with its number."""

    number = 0


def numbers_of(error: pyodbc.Error) -> tuple[int, ...]:
    """The server's error numbers in a driver's error, first things first."""
    return tuple(int(number) for number in _NUMBER.findall(_text(error)) if number != "0")


def state_of(error: pyodbc.Error) -> str:
    """The SQLSTATE that the driver gave."""
    return str(error.args[0]) if error.args else ""


def is_lost(error: pyodbc.Error) -> bool:
    """Whether the connection is gone, so that nothing in flight may be assumed done or undone."""
    return (
        state_of(error).startswith(_LOST_STATES)
        or not LOST.isdisjoint(numbers_of(error))
        or "closed connection" in _text(error)
    )


def has_spoken(error: pyodbc.Error) -> bool:
    """Whether the server itself has said this; if not, the driver did, and nobody knows what the server has done."""
    return "[SQL Server]" in _text(error)


def takes_no_connection_now(error: pyodbc.Error) -> bool:
    """Whether a failed login may succeed a moment later; if not, it was refused."""
    text = _text(error)
    if has_spoken(error):  # so its number tells
        return not (TRANSIENT | LOST | NOT_NOW).isdisjoint(numbers_of(error))
    return not _NO_TLS.search(text) and (state_of(error) == _TIMED_OUT or state_of(error).startswith(_LOST_STATES))


def login_failure(error: pyodbc.Error) -> DponeError:
    """Our error for a login that failed: to be tried again, or refused for good."""
    text = readable(error)
    if takes_no_connection_now(error):
        return ServerUnreachable(text)
    if not has_spoken(error) and _NO_TLS.search(text):
        return LoginRefused(text, next_step=_TLS_ADVICE)
    return LoginRefused(text)


def translate(error: pyodbc.Error) -> DponeError:
    """Our error for a driver's; an unknown one is permanent."""
    state, numbers, text = state_of(error), numbers_of(error), readable(error)
    if is_lost(error):
        return ConnectionLost(text)
    if state == _CUT:
        return Interrupted("the statement was cut")
    if state == _TIMED_OUT:
        return TransientFailure("the statement took longer than its bound")
    if not TRANSIENT.isdisjoint(numbers):
        return TransientFailure(f"{numbers[0]}: {text}")
    if not FULL.isdisjoint(numbers):
        return ServerFull(f"{numbers[0]}: {text}")
    known = ServerError(f"{numbers[0]}: {text}" if numbers else text)
    known.number = numbers[0] if numbers else 0
    return known


def readable(error: pyodbc.Error) -> str:
    """The server's sentence without the driver's names, and without any value that it quotes."""
    return without_values(_TAIL.sub("", _PREFIX.sub("", _text(error)))).strip()


def without_values(text: str) -> str:
    """A server's sentence without the values that it quotes: row content never reaches a message."""
    return _CONTENT.sub(r"\1(hidden)", text)


def _text(error: pyodbc.Error) -> str:
    return str(error.args[-1]) if error.args else str(error)
