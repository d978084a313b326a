"""The channel `email`: alerts as mails, encrypted and with the server's certificate verified unless the URL says no."""

from __future__ import annotations

import logging
import smtplib
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from typing import Literal

from dpone_dagster.campaign.alerts import Alert
from dpone_dagster.campaign.errors import NotificationFailed

TIMEOUT_SECONDS = 5.0
Security = Literal["starttls", "tls", "off"]
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class MailServer:
    """An SMTP server.

    Attributes:
        host: Its name.
        port: Its port.
        security: `starttls`, `tls` from the first byte, or `off`.
        user: To log in with; None for no login.
        password: Of that user.
    """

    host: str
    port: int
    security: Security = "starttls"
    user: str | None = None
    password: str = field(default="", repr=False)


class MailChannel:
    """Sends alerts by mail, all recipients in one.

    Args:
        server: That takes it.
        sender: Address.
        recipients: Addresses.
        context: Of TLS; the system's certificates if left out.
    """

    name = "email"
    problem: str | None = None

    def __init__(
        self, server: MailServer, sender: str, recipients: Sequence[str], context: ssl.SSLContext | None = None
    ) -> None:
        self._server = server
        self._sender = sender
        self._recipients = list(recipients)
        self._context = context or ssl.create_default_context()

    def send(self, alert: Alert) -> None:
        """Send it.

        Raises:
            NotificationFailed: The server did not take it for anybody.
        """
        # `from None`: what a server says may repeat what it was told.
        try:
            with self._connected() as smtp:
                refused = smtp.send_message(self._mail(alert), self._sender, self._recipients)
        except smtplib.SMTPResponseException as answer:
            raise self._failed(f"answered {answer.smtp_code}") from None
        except smtplib.SMTPRecipientsRefused as answer:
            codes = sorted({code for code, _ in answer.recipients.values()})
            raise self._failed(f"refused every recipient: {', '.join(map(str, codes))}") from None
        except (OSError, smtplib.SMTPException) as failure:
            # Of a time-out under way smtplib tells only that the server was disconnected.
            if isinstance(failure, TimeoutError) or isinstance(failure.__context__, TimeoutError):
                raise self._failed(f"did not answer within {TIMEOUT_SECONDS:g} s") from None
            words = failure.strerror if isinstance(failure, OSError) else None
            raise self._failed(f"cannot be used: {words or type(failure).__name__}") from None
        if refused:
            # Sent again, the others would get it twice.
            _logger.warning("%s refused %d of %d recipients", self._server.host, len(refused), len(self._recipients))

    def _connected(self) -> smtplib.SMTP:
        server = self._server
        if server.security == "tls":
            smtp: smtplib.SMTP = smtplib.SMTP_SSL(
                server.host, server.port, timeout=TIMEOUT_SECONDS, context=self._context
            )
        else:
            smtp = smtplib.SMTP(server.host, server.port, timeout=TIMEOUT_SECONDS)
        try:
            if server.security == "starttls":
                smtp.starttls(context=self._context)
            if server.user is not None:
                smtp.login(server.user, server.password)
        except BaseException:
            smtp.close()
            raise
        return smtp

    def _mail(self, alert: Alert) -> EmailMessage:
        mail = EmailMessage()
        mail["Subject"] = f"[dpone] {alert.headline}"
        mail["From"] = self._sender
        mail["To"] = ", ".join(self._recipients)
        mail["Date"] = formatdate()
        mail["Message-ID"] = make_msgid(domain="dpone-dagster")
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(alert.text)
        return mail

    def _failed(self, what: str) -> NotificationFailed:
        return NotificationFailed(f"{self._server.host}:{self._server.port} {what}")
