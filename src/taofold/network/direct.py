"""One blocking HTTP request that is answered by the server it was sent to, or fails.

A redirect is an answer like any other: following it would hand the headers, and with them the
key, to whomever the server names. Every blocking client of the house sends through here.
"""

import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit


class _Unredirected(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        return None  # so that 3xx raises HTTPError


_OPENER: Final = urllib.request.build_opener(_Unredirected)
_PROXYLESS: Final = urllib.request.build_opener(_Unredirected, urllib.request.ProxyHandler({}))


def send(
    url: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    timeout: float,
    method: str | None = None,
    proxies: bool = True,
) -> Any:
    """The open response (a context manager with `read` and `status`), status 200 to 299.

    Args:
        url: http or https. Whoever passes it in answers for where it leads.
        body: None sends GET.
        headers: may hold credentials.
        timeout: seconds for connecting, and for each read.
        method: instead of GET or POST.
        proxies: use those that the environment names.

    Raises:
        ValueError: `url` is of another kind.
        urllib.error.HTTPError: any other status, redirects too; see `reason`.
        OSError: no connection.
    """
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"only http and https URLs can be called, not {url[:100]!r}")
    request = urllib.request.Request(url, body, dict(headers or {}), method=method)  # noqa: S310
    opener = _OPENER if proxies else _PROXYLESS
    return opener.open(request, timeout=timeout)


def reason(error: urllib.error.HTTPError) -> str:
    """Status and phrase; of a redirect also where it points, for whoever configured the URL."""
    target = error.headers.get("Location", "") if 300 <= error.code < 400 else ""
    reason = f"{error.code} {error.reason}"
    return (
        f"{reason}: it points to {target[:200]!r}; redirects are not followed" if target else reason
    )


def origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port: whom a request to `url` trusts.

    Raises:
        ValueError: the port is none.
    """
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    return parts.scheme, (parts.hostname or "").rstrip("."), port
