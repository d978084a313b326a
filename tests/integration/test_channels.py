"""Every channel against a server of its own kind: what arrives, what is said when it does not, and what never is."""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

import pytest
import trustme
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from dpone_dagster.campaign.alerts import Alert
from dpone_dagster.campaign.errors import NotificationFailed
from dpone_dagster.notify import mail, post
from dpone_dagster.notify.environment import channels_of
from dpone_dagster.notify.mail import MailChannel, MailServer, Security
from dpone_dagster.notify.slack import SlackChannel
from dpone_dagster.notify.webhook import WebhookChannel
from dpone_dagster.ports.channel import Channel
from tests.servers.receivers import Hook, closed_port, silent_port, web_hook
from tests.unit.campaign.looks import NOW

ALERT = Alert(
    "raised",
    "orders/stalled/20260301T115000.000000Z",
    "orders",
    "stalled",
    "2 chunks <are> running & none moves, naïve 😀",
    "look at them",
    "docs/runbook.md#nothing-moves",
    NOW,
    NOW,
)
SECRETS = ("s3cret", "t0ken")
HOST = "127.0.0.1"
# Of the server in tests, which takes passwords without TLS so that a test can send one.
pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS:UserWarning")


@pytest.fixture
def hook() -> Iterator[Hook]:
    with web_hook() as running:
        yield running


def failure(channel: Channel) -> str:
    """What is said of a message that did not get through, which never has a secret in it."""
    with pytest.raises(NotificationFailed) as caught:
        channel.send(ALERT)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    text = str(caught.value)
    assert not any(secret in text for secret in SECRETS)
    return caught.value.message


# ---------------------------------------------------------------- over the web


def test_a_webhook_gets_plain_data(hook: Hook) -> None:
    WebhookChannel(hook.url, "t0ken").send(ALERT)
    (posted,) = hook.posted
    assert posted.path == "/hook/s3cret-path"
    assert posted.headers["Content-Type"] == "application/json"
    assert posted.headers["Authorization"] == "Bearer t0ken"
    assert posted.body == {"source": "dpone-dagster", "text": ALERT.text, **ALERT.as_dict()}
    WebhookChannel(hook.url).send(ALERT)
    assert "Authorization" not in hook.posted[1].headers


def test_slack_gets_text_in_which_nothing_is_markup_but_ours(hook: Hook) -> None:
    SlackChannel(hook.url).send(ALERT)
    SlackChannel(hook.url).send(replace(ALERT, state="cleared"))
    raised, cleared = (posted.body["text"] for posted in hook.posted)
    assert raised.startswith(
        ":red_circle: *orders: stalled*\n2 chunks &lt;are&gt; running &amp; none moves, naïve 😀\n"
    )
    assert cleared.startswith(":large_green_circle: *orders: stalled is over*\n")


@pytest.mark.parametrize("kind", [WebhookChannel, SlackChannel])
@pytest.mark.parametrize("status", [301, 302, 307, 400, 404, 429, 500, 503])
def test_an_answer_that_says_no_is_a_failure(hook: Hook, kind: type[WebhookChannel], status: int) -> None:
    hook.status = status
    assert failure(kind(hook.url)) == f"127.0.0.1 answered {status}"
    assert len(hook.posted) == 1, "no redirect is followed"


def test_a_web_server_that_hangs_is_waited_for_so_long(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(post, "TIMEOUT_SECONDS", 0.2)
    hook.hanging.set()
    assert failure(WebhookChannel(hook.url)) == "127.0.0.1 did not answer: no answer within 0.2 s"


def test_a_web_server_that_is_not_there(hook: Hook) -> None:
    gone = f"http://127.0.0.1:{closed_port()}/s3cret-path"
    assert failure(WebhookChannel(gone, "t0ken")) == "127.0.0.1 cannot be reached: Connection refused"
    assert "cannot be reached" in failure(WebhookChannel("http://nowhere.invalid/s3cret-path"))
    assert "cannot be reached" in failure(WebhookChannel(hook.url.replace("http:", "https:"))), "no TLS there"


# ---------------------------------------------------------------- by mail


@dataclass
class Box:
    """Takes mail, and refuses who it is told to."""

    got: list[EmailMessage] = field(default_factory=list)
    refusing: tuple[str, ...] = ()
    answer: str = "250 OK"
    hellos: list[tuple[bool, bytes | None]] = field(default_factory=list)

    async def handle_RCPT(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.refusing:
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        self.hellos.append((session.ssl is not None, (session.auth_data or LoginPassword(b"", b"")).login or None))
        if self.answer.startswith("250"):
            assert isinstance(envelope.content, bytes)
            self.got.append(message_from_bytes(envelope.content, policy=policy.default))  # type: ignore[arg-type]
        return self.answer


@dataclass(frozen=True)
class Certificates:
    """A server's certificate, and who trusts it."""

    server: ssl.SSLContext
    client: ssl.SSLContext


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(HOST).configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return Certificates(server, client)


@pytest.fixture
def box() -> Box:
    return Box()


def logged_in(server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
    return AuthResult(success=data == LoginPassword(b"loader", b"s3cret"), handled=False, auth_data=data)


class MailController(Controller):
    """On a free port. It tries itself before a test does, and then must trust itself."""

    def __init__(self, box: Box, certificates: Certificates, security: Security) -> None:
        encrypted = {"tls_context": certificates.server, "require_starttls": True} if security == "starttls" else {}
        super().__init__(
            box,
            hostname=HOST,
            port=0,
            ssl_context=certificates.server if security == "tls" else None,
            authenticator=logged_in,
            auth_required=True,
            auth_require_tls=security == "starttls",
            **encrypted,
        )
        self._client = certificates.client if security == "tls" else None

    def _trigger_server(self) -> None:
        assert self.server is not None
        self.port = self.server.sockets[0].getsockname()[1]
        plain = socket.create_connection((HOST, self.port), 20)
        with self._client.wrap_socket(plain, server_hostname=HOST) if self._client else plain as used:
            used.recv(1024)


@contextlib.contextmanager
def mail_server(box: Box, security: Security, certificates: Certificates) -> Iterator[int]:
    controller = MailController(box, certificates, security)
    controller.start()
    try:
        yield controller.port
    finally:
        controller.stop()


def channel_to(
    port: int, certificates: Certificates, security: Security, *, password: str = "s3cret", to: tuple[str, ...] = ()
) -> MailChannel:
    server = MailServer(HOST, port, security, "loader", password)
    return MailChannel(server, "dpone@example.org", to or ("ada@example.org", "bob@example.org"), certificates.client)


@pytest.mark.parametrize("security", ["starttls", "tls", "off"])
def test_a_mail_arrives_by_the_way_that_was_asked_for(box: Box, certificates: Certificates, security: Security) -> None:
    with mail_server(box, security, certificates) as port:
        channel_to(port, certificates, security).send(ALERT)
    (got,) = box.got
    assert box.hellos == [(security == "starttls", b"loader")]  # with `tls` the session is encrypted below SMTP
    assert got["Subject"] == "[dpone] orders: stalled"
    assert got["To"] == "ada@example.org, bob@example.org"
    assert got["Auto-Submitted"] == "auto-generated"
    assert got["Message-ID"]
    assert got["Date"]
    assert got.get_content().splitlines() == ALERT.text.splitlines()


def test_a_mail_server_without_tls_or_with_another_certificate_is_not_talked_to(
    box: Box, certificates: Certificates
) -> None:
    with mail_server(box, "off", certificates) as port:
        assert "cannot be used: SMTPNotSupportedError" in failure(channel_to(port, certificates, "starttls"))
    with mail_server(box, "starttls", certificates) as port:
        stranger = Certificates(certificates.server, ssl.create_default_context())
        assert "cannot be used" in failure(channel_to(port, stranger, "starttls"))
    assert box.got == []


def test_a_mail_server_that_says_no(box: Box, certificates: Certificates, caplog: pytest.LogCaptureFixture) -> None:
    with mail_server(box, "starttls", certificates) as port:
        wrong = channel_to(port, certificates, "starttls", password="s3cret but wrong")
        assert failure(wrong) == f"{HOST}:{port} answered 535"
        right = channel_to(port, certificates, "starttls")
        box.answer = "451 s3cret trouble"
        assert failure(right) == f"{HOST}:{port} answered 451"
        box.answer = "250 OK"
        box.refusing = ("ada@example.org", "bob@example.org")
        assert failure(right) == f"{HOST}:{port} refused every recipient: 550"
        assert box.got == []
        box.refusing = ("ada@example.org",)
        with caplog.at_level(logging.WARNING):
            right.send(ALERT)
        assert len(box.got) == 1, "who was not refused has got it, and would get it again"
        assert "refused 1 of 2 recipients" in caplog.text


def test_a_mail_server_that_hangs_or_is_not_there(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mail, "TIMEOUT_SECONDS", 0.2)
    with silent_port() as port:
        for security in ("starttls", "tls", "off"):
            said = failure(channel_to(port, certificates, security))  # type: ignore[arg-type]
            assert said == f"{HOST}:{port} did not answer within 0.2 s"
    gone = closed_port()
    assert failure(channel_to(gone, certificates, "off")) == f"{HOST}:{gone} cannot be used: Connection refused"


# ---------------------------------------------------------------- by the environment


def test_the_log_is_always_there_and_has_a_line_an_alert(caplog: pytest.LogCaptureFixture) -> None:
    (log,) = channels_of({"DPONE_NOTIFY_WEBHOOK_URL": " ", "DPONE_NOTIFY_EMAIL_TO": ""})
    with caplog.at_level(logging.INFO, logger="dpone_dagster.alerts"):
        log.send(ALERT)
        log.send(replace(ALERT, state="cleared"))
    assert [(record.levelname, record.name) for record in caplog.records] == [
        ("WARNING", "dpone_dagster.alerts"),
        ("INFO", "dpone_dagster.alerts"),
    ]
    assert caplog.messages[0].startswith("orders: stalled | 2 chunks")


def test_the_environment_names_as_many_channels_as_one_likes(hook: Hook) -> None:
    environ = {
        "DPONE_NOTIFY_WEBHOOK_URL": hook.url,
        "DPONE_NOTIFY_WEBHOOK_TOKEN": "t0ken",
        "DPONE_NOTIFY_SLACK_URL": f"{hook.url}/slack",
        "DPONE_NOTIFY_SMTP_URL": "smtp://loader:s3cret%40@mail.example.org",
        "DPONE_NOTIFY_EMAIL_TO": "ada@example.org, bob@example.org",
    }
    channels = channels_of(environ)
    assert [(channel.name, channel.problem) for channel in channels] == [
        *(("log", None), ("webhook", None), ("slack", None), ("email", None)),
    ]
    for channel in channels[:3]:
        channel.send(ALERT)
    assert [posted.path for posted in hook.posted] == ["/hook/s3cret-path", "/hook/s3cret-path/slack"]
    assert not any(secret in repr(channels) for secret in SECRETS)
    email = channels[3]
    assert isinstance(email, MailChannel)
    assert email._server == MailServer("mail.example.org", 587, "starttls", "loader", "s3cret@")
    assert "s3cret" not in repr(email._server)


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("smtp://mail", MailServer("mail", 587, "starttls")),
        ("smtps://u:p@mail:4650", MailServer("mail", 4650, "tls", "u", "p")),
        ("smtps://mail", MailServer("mail", 465, "tls")),
        ("smtp://mail?tls=off", MailServer("mail", 25, "off")),
    ],
)
def test_forms_of_the_mail_servers_url(url: str, server: MailServer) -> None:
    _, email = channels_of({"DPONE_NOTIFY_SMTP_URL": url, "DPONE_NOTIFY_EMAIL_TO": "ada@example.org"})
    assert isinstance(email, MailChannel)
    assert email._server == server


@pytest.mark.parametrize(
    ("environ", "variable"),
    [
        ({"DPONE_NOTIFY_WEBHOOK_URL": "s3cret"}, "DPONE_NOTIFY_WEBHOOK_URL"),
        ({"DPONE_NOTIFY_WEBHOOK_URL": "file:///etc/s3cret"}, "DPONE_NOTIFY_WEBHOOK_URL"),
        ({"DPONE_NOTIFY_WEBHOOK_URL": "https://host:s3cret/"}, "DPONE_NOTIFY_WEBHOOK_URL"),
        ({"DPONE_NOTIFY_WEBHOOK_URL": "https://host/s3cret path"}, "DPONE_NOTIFY_WEBHOOK_URL"),
        (
            {"DPONE_NOTIFY_WEBHOOK_URL": "https://host/", "DPONE_NOTIFY_WEBHOOK_TOKEN": "s3cret\nX: y"},
            "DPONE_NOTIFY_WEBHOOK_TOKEN",
        ),
        ({"DPONE_NOTIFY_SLACK_URL": "hooks.slack.com/s3cret"}, "DPONE_NOTIFY_SLACK_URL"),
        ({"DPONE_NOTIFY_EMAIL_TO": "ada@example.org"}, "DPONE_NOTIFY_SMTP_URL"),
        ({"DPONE_NOTIFY_SMTP_URL": "smtp://u:s3cret@h"}, "DPONE_NOTIFY_EMAIL_TO"),
        ({"DPONE_NOTIFY_SMTP_URL": "smtp://h", "DPONE_NOTIFY_EMAIL_TO": "a@b, c"}, "DPONE_NOTIFY_EMAIL_TO"),
        (
            {"DPONE_NOTIFY_SMTP_URL": "smtp://h", "DPONE_NOTIFY_EMAIL_TO": "a@b", "DPONE_NOTIFY_EMAIL_FROM": "c\nd@e"},
            "DPONE_NOTIFY_EMAIL_FROM",
        ),
        ({"DPONE_NOTIFY_SMTP_URL": "smtp://h:s3cret", "DPONE_NOTIFY_EMAIL_TO": "a@b"}, "DPONE_NOTIFY_SMTP_URL"),
        ({"DPONE_NOTIFY_SMTP_URL": "smtp://h?tls=no", "DPONE_NOTIFY_EMAIL_TO": "a@b"}, "DPONE_NOTIFY_SMTP_URL"),
        ({"DPONE_NOTIFY_SMTP_URL": "imap://h", "DPONE_NOTIFY_EMAIL_TO": "a@b"}, "DPONE_NOTIFY_SMTP_URL"),
    ],
)
def test_what_cannot_be_used_is_a_channel_that_says_why(environ: dict[str, str], variable: str) -> None:
    _, broken = channels_of(environ)
    assert broken.problem is not None
    assert broken.problem.startswith(variable)
    assert "s3cret" not in broken.problem
    failure(broken)
