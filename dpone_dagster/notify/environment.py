"""Which channels there are, by the environment: the only way their secrets come in."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from urllib.parse import parse_qs, unquote, urlsplit

from dpone_dagster.campaign.alerts import Alert
from dpone_dagster.campaign.errors import NotificationFailed
from dpone_dagster.notify.log import LogChannel
from dpone_dagster.notify.mail import MailChannel, MailServer, Security
from dpone_dagster.notify.slack import SlackChannel
from dpone_dagster.notify.webhook import WebhookChannel
from dpone_dagster.ports.channel import Channel

WEBHOOK_URL = "DPONE_NOTIFY_WEBHOOK_URL"
WEBHOOK_TOKEN = "DPONE_NOTIFY_WEBHOOK_TOKEN"  # noqa: S105  # a variable's name
SLACK_URL = "DPONE_NOTIFY_SLACK_URL"
SMTP_URL = "DPONE_NOTIFY_SMTP_URL"
MAIL_TO = "DPONE_NOTIFY_EMAIL_TO"
MAIL_FROM = "DPONE_NOTIFY_EMAIL_FROM"

_SMTP_FORM = "smtp://user:password@host:587, smtps://user:password@host:465, or smtp://host:25?tls=off"
_ADDRESS = re.compile(r"[^@\s,<>]+@[^@\s,<>]+")
_PORTS: Mapping[Security, int] = {"starttls": 587, "tls": 465, "off": 25}


class Misconfigured:
    """A channel that was asked for and cannot be used; what it should send waits until it can.

    Args:
        name: Of the channel.
        problem: What is wrong, without a word of a value.
    """

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        self.problem: str | None = problem

    def send(self, alert: Alert) -> None:
        """Raises always."""
        raise NotificationFailed(f"{alert.incident_id} was not sent: {self.problem}")


def channels_of(environ: Mapping[str, str]) -> list[Channel]:
    """The log, and every channel that the environment has an address for. Opens nothing.

    Args:
        environ: `DPONE_NOTIFY_…` are read from it.
    """
    found: list[Channel] = [LogChannel()]
    for name, variable, make in (
        ("webhook", WEBHOOK_URL, _webhook),
        ("slack", SLACK_URL, _slack),
        ("email", SMTP_URL, _mail),
    ):
        if environ.get(variable, "").strip() or (name == "email" and environ.get(MAIL_TO, "").strip()):
            found.append(_made(name, make, environ))
    return found


def _made(name: str, make: Callable[[Mapping[str, str]], Channel], environ: Mapping[str, str]) -> Channel:
    try:
        return make(environ)
    except NotificationFailed as error:
        return Misconfigured(name, error.message)


def _webhook(environ: Mapping[str, str]) -> Channel:
    token = environ.get(WEBHOOK_TOKEN, "").strip() or None
    if token is not None and not (token.isascii() and token.isprintable()):
        raise NotificationFailed(f"{WEBHOOK_TOKEN} has characters that no header can carry")
    return WebhookChannel(_web_url(environ, WEBHOOK_URL), token)


def _slack(environ: Mapping[str, str]) -> Channel:
    return SlackChannel(_web_url(environ, SLACK_URL))


def _web_url(environ: Mapping[str, str], variable: str) -> str:
    url = environ[variable].strip()
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not (url.isascii() and url.isprintable()) or " " in url:
        raise NotificationFailed(f"{variable} is no URL of the form https://host/path")
    return url


def _mail(environ: Mapping[str, str]) -> Channel:
    server = _mail_server(environ.get(SMTP_URL, "").strip())
    recipients = [word.strip() for word in environ.get(MAIL_TO, "").split(",") if word.strip()]
    if not recipients or not all(map(_ADDRESS.fullmatch, recipients)):
        raise NotificationFailed(f"{MAIL_TO} has to be addresses, parted by commas")
    sender = environ.get(MAIL_FROM, "").strip() or recipients[0]
    if not _ADDRESS.fullmatch(sender):
        raise NotificationFailed(f"{MAIL_FROM} has to be an address")
    return MailChannel(server, sender, recipients)


def _mail_server(url: str) -> MailServer:
    try:
        parts = urlsplit(url)
        port, host, options = parts.port, parts.hostname, parse_qs(parts.query, keep_blank_values=True)
    except ValueError:
        host, port, options = None, None, {}
    security = _security(url.partition(":")[0].lower(), options)
    if not host or security is None:
        raise NotificationFailed(f"{SMTP_URL} has to be {_SMTP_FORM}")
    user = unquote(parts.username) if parts.username else None
    return MailServer(host, port or _PORTS[security], security, user, unquote(parts.password or ""))


def _security(scheme: str, options: Mapping[str, list[str]]) -> Security | None:
    """How it is encrypted; None where the URL does not say it in a way that is known."""
    if scheme == "smtps" and not options:
        return "tls"
    if scheme == "smtp" and not options:
        return "starttls"
    return "off" if scheme == "smtp" and dict(options) == {"tls": ["off"]} else None
