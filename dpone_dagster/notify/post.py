"""One POST of JSON, bounded in time, without a word of the address but its host in what it says."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any
from urllib import error, request
from urllib.parse import urlsplit

from dpone_dagster.campaign.errors import NotificationFailed

# Of each wait for the server; an alert is a few hundred bytes each way.
TIMEOUT_SECONDS = 5.0


class _NoRedirect(request.HTTPRedirectHandler):
    """A redirected POST arrives as a GET without its body, and nobody has been told."""

    def redirect_request(self, *_: Any) -> None:
        """Let it be the answer, which is none that says taken."""


def post_json(url: str, payload: Mapping[str, object], headers: Mapping[str, str] | None = None) -> None:
    """Send it; returned means that the server answered with 2xx.

    Args:
        url: `http://` or `https://`, secrets included.
        payload: Plain data.
        headers: Besides the content's type.

    Raises:
        NotificationFailed: Any other answer, or none; whether the server took it is then unknown.
    """
    host = urlsplit(url).hostname
    asked = request.Request(  # noqa: S310  # the scheme was checked when the environment was read
        url,
        data=json.dumps(payload).encode(),
        headers={"Content-Type": "application/json", "User-Agent": "dpone-dagster", **(headers or {})},
        method="POST",
    )
    # `from None` throughout: the causes name the whole address.
    try:
        with request.build_opener(_NoRedirect).open(asked, timeout=TIMEOUT_SECONDS):
            return
    except error.HTTPError as answer:
        answer.close()
        raise NotificationFailed(f"{host} answered {answer.code}") from None
    except error.URLError as failure:
        raise NotificationFailed(f"{host} cannot be reached: {_said(failure.reason)}") from None
    except (OSError, http.client.HTTPException, ValueError) as failure:
        raise NotificationFailed(f"{host} did not answer: {_said(failure)}") from None


def _said(reason: object) -> str:
    """What the system says of it; never a library's own text, which may quote the request."""
    if isinstance(reason, TimeoutError):
        return f"no answer within {TIMEOUT_SECONDS:g} s"
    words = reason.strerror if isinstance(reason, OSError) else None
    return words or type(reason).__name__
