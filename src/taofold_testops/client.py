"""One HTTP request with credentials to a service, and its errors for the model.

The base URL and the credentials come from a `ServiceAccount`, never from a model or a server.
`segment` and `segments` escape a model's text for a path: it can never be another path, query or
fragment. Redirects are followed only for reads and only to the same scheme, host and port.

| answer | a read | a write |
|---|---|---|
| 429, or GitHub's 403 for a rate limit | waits and repeats | waits and repeats: it was refused |
| 502, 503, 504, no answer | repeats | `Unclear`: it may have happened, and is not repeated |
| other errors | `ServiceError` with the service's own reason | the same |

Credentials are removed from every answer before it is read, and a reason that holds them in any
encoding is not quoted. Knows nothing about single services.
"""

import asyncio
import html
import importlib
import json
import re
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol
from urllib.parse import quote, quote_plus, unquote, urlencode, urljoin, urlsplit

from taofold.core.errors import ConfigError
from taofold.core.json_values import is_array, is_object
from taofold.network import bounded_wait, origin, proxy_for, retry_after, unpacking
from taofold_testops.settings import ServiceAccount
from taofold_testops.texts import clip, text_of_storage

ATTEMPTS: Final = 3
LONGEST_WAIT: Final = 15.0
"""Seconds. A rate limit that lasts longer is an error, so that the run can do something else."""
SECONDS: Final = 20.0
"""Seconds that one request may take."""
LARGEST: Final = 4 << 20
"""Maximum bytes of an answer, after decompression."""
REDIRECTS: Final = 3
MOST_PAGES: Final = 20
"""Answers that one search reads. Hits outside the scope are left out, and count here."""
_REASON: Final = 400
_SECONDARY: Final = 60.0
"""Seconds to wait after GitHub's secondary limit without a header
(https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api)."""
_SHORTEST_SECRET: Final = 6
_MOST_ESCAPES: Final = 3
"""Escapes within escapes that are looked through for a credential."""
_WITHHELD: Final = "[a text with credentials]"
_ESCAPE: Final = re.compile(r"\\u([0-9a-fA-F]{4})|\\x([0-9a-fA-F]{2})|\\(.)")

Send = Literal["read", "write"]
Query = Mapping[str, str | int | None]


class ServiceError(Exception):
    """A service refused the request, or its argument is invalid. The text is for the model."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class Unclear(ServiceError):
    """A write has no answer or a server error. It may have happened."""


@dataclass(frozen=True, slots=True)
class ServiceRequest:
    """One request. `most` is the maximum number of bytes of the answer."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None = None
    most: int = LARGEST


@dataclass(frozen=True, slots=True)
class ServiceResponse:
    """An answer. Header names are in lower case. `cut` if the body is longer than `most`."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    cut: bool = False


class ServiceTransport(Protocol):
    """Carries one request and follows no redirect.

    Raises `TimeoutError`, or `OSError` without an answer. `ConnectionRefusedError` means that
    nothing was sent.
    """

    async def send(self, request: ServiceRequest) -> ServiceResponse: ...


class Network:
    """The transport over the network, with the environment's proxy.

    Args:
        seconds: Time for one request and its answer.
    """

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds = seconds

    async def send(self, request: ServiceRequest) -> ServiceResponse:
        """Sends the request. See `ServiceTransport`."""
        aiohttp, yarl = importlib.import_module("aiohttp"), importlib.import_module("yarl")
        try:
            async with (
                aiohttp.ClientSession(
                    timeout=aiohttp.ClientTimeout(total=self.seconds),
                    cookie_jar=aiohttp.DummyCookieJar(),
                    trust_env=False,  # `.netrc` would replace the account's credentials
                    auto_decompress=False,
                ) as session,
                session.request(
                    request.method,
                    yarl.URL(request.url, encoded=True),  # as escaped here
                    headers=dict(request.headers),
                    data=request.body,
                    # Plain http is for this machine only, so a proxy would see the token.
                    proxy=proxy_for(request.url) if request.url.startswith("https:") else None,
                    allow_redirects=False,
                ) as response,
            ):
                headers = {name.lower(): value for name, value in response.headers.items()}
                cookies = response.headers.getall("Set-Cookie", [])
                headers["set-cookie"] = "; ".join(part.partition(";")[0] for part in cookies)
                body, cut = await _read(response, headers, request.most)
                return ServiceResponse(response.status, headers, body, cut)
        except TimeoutError:
            raise
        except aiohttp.ClientConnectorError as error:
            raise ConnectionRefusedError(type(error).__name__) from error
        except aiohttp.ClientError as error:
            # Its own text may hold the URL of a redirect or a header.
            raise OSError(type(error).__name__) from error


NextPage = Callable[[int, str | None, int], Awaitable[tuple[list[Any], str | None, bool]]]
"""Takes the size of a page, the token of the last one, and the number of hits before. Returns the
hits, the token of the next page, and whether there is one."""


async def hits(
    page: NextPage, limit: int, size: int, holds: Callable[[Any], bool]
) -> tuple[list[Any], bool]:
    """Returns up to `limit` hits of a search that `holds` accepts, and whether there are more.

    Args:
        page: Asks for one page.
        limit: Maximum number of hits.
        size: Maximum number of hits of a page.
        holds: Returns whether a hit is in the scope. Others are left out.
    """
    found: list[Any] = []
    token: str | None = None
    more, seen = True, 0
    # Pages without hits, or outside the scope, would be asked for without end.
    for _ in range(MOST_PAGES):
        listed, token, more = await page(min(limit, size), token, seen)
        seen += len(listed)
        found += [hit for hit in listed if holds(hit)]
        more = more and bool(listed)
        if not more or len(found) >= limit:
            break
    return found[:limit], more or len(found) > limit


async def _read(response: Any, headers: Mapping[str, str], most: int) -> tuple[bytes, bool]:
    try:
        unpack = unpacking(headers.get("content-encoding", ""), most)
    except ValueError as error:
        raise OSError(f"its answer {error}") from None
    body = bytearray()
    async for piece in response.content.iter_any():
        body += unpack(piece) if unpack else piece
        if len(body) > most:
            break
    return bytes(body[:most]), len(body) > most


class ServiceClient:
    """Requests to one service.

    Args:
        account: Address and credentials.
        transport: Carries the requests.
        headers: Headers of every request, besides the credentials.
        sleep: Waits between attempts.
        now: Unix time in seconds.
    """

    def __init__(
        self,
        account: ServiceAccount,
        transport: ServiceTransport | None = None,
        headers: Mapping[str, str] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.account = account
        self._transport: ServiceTransport = transport or Network()
        self._sleep, self._now = sleep, now
        self._authorization = _authorization(account)
        self._secrets = _forms(account, self._authorization)
        self._headers = {
            "Accept": "application/json",
            "Accept-Encoding": "gzip, deflate",
            "User-Agent": "taofold",
            **(headers or {}),
        }

    async def get(self, path: str, **query: str | int | None) -> dict[str, Any]:
        """Returns the object at `path`, a path whose variable parts are escaped."""
        return self.object(await self.call("GET", path, query))

    async def get_list(self, path: str, **query: str | int | None) -> list[dict[str, Any]]:
        """Returns the objects of the array at `path`."""
        found = self.json(await self.call("GET", path, query))
        return [item for item in found if is_object(item)] if is_array(found) else []

    async def search(self, path: str, body: Any) -> dict[str, Any]:
        """Returns the object of a search that is sent with POST, and changes nothing."""
        return self.object(await self.call("POST", path, body=body))

    async def write(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Makes a change once, and returns the object of the answer, or an empty one.

        Raises:
            Unclear: It may have happened.
            ServiceError: It did not happen.
        """
        response = await self.call(method, path, body=body, kind="write")
        try:
            made: Any = json.loads(response.body)
        except (ValueError, RecursionError):
            made = None  # the status has confirmed the change already
        return made if is_object(made) else {}

    async def call(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        body: Any = None,
        *,
        kind: Send = "read",
        most: int = LARGEST,
        headers: Mapping[str, str] | None = None,
    ) -> ServiceResponse:
        """Returns a successful answer, after waits and repetitions that are safe.

        Args:
            method: HTTP method.
            path: Path below the base URL, escaped.
            query: Parameters. None values are left out.
            body: JSON of the body. None for no body.
            kind: "write" if the request changes something.
            most: Maximum bytes of the answer. A longer answer is cut.
            headers: Further headers.

        Raises:
            ServiceError: The service refused. `Unclear` if a write may have happened.
        """
        pairs = {name: value for name, value in (query or {}).items() if value is not None}
        asked = f"?{urlencode(pairs, quote_via=quote)}" if pairs else ""
        sent: dict[str, str] = {**self._headers, "Authorization": self._authorization}
        content = None if body is None else json.dumps(body).encode()
        if content is not None:
            sent["Content-Type"] = "application/json"
        request = ServiceRequest(
            method, self.account.url + path + asked, {**sent, **(headers or {})}, content, most
        )
        for attempt in range(1, ATTEMPTS + 1):
            response = await self._attempt(request, kind, last=attempt == ATTEMPTS)
            if response is None:
                await self._sleep(0.5 * 2 ** (attempt - 1))
                continue
            if response.status < 400:
                return response
            wait = self._wait(response, kind, attempt)
            if wait is None or attempt == ATTEMPTS or wait > LONGEST_WAIT:
                raise self._refusal(response, kind, wait)
            await self._sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    def json(self, response: ServiceResponse) -> Any:
        """Returns the JSON of an answer.

        Raises:
            ServiceError: It is too large, or is not JSON.
        """
        name = self.account.service
        if response.cut:
            raise ServiceError(f"the answer of {name} is over {LARGEST >> 20} MiB; ask for less")
        try:
            return json.loads(response.body)
        except (ValueError, RecursionError):
            kind = self._quotable(response.headers.get("content-type", "no type"))
            kind = clip(_printable(kind), 60)
            raise ServiceError(
                f"{name} answered with {kind}, not with JSON: check its address and credentials"
            ) from None

    def object(self, response: ServiceResponse) -> dict[str, Any]:
        """Returns the object of an answer.

        Raises:
            ServiceError: It is another value.
        """
        value = self.json(response)
        if not is_object(value):
            raise ServiceError(f"{self.account.service} answered with JSON of an unknown form")
        return value

    async def _attempt(
        self, request: ServiceRequest, kind: Send, *, last: bool
    ) -> ServiceResponse | None:
        """Returns the answer of one attempt; None if it failed and may be repeated."""
        name = self.account.service
        try:
            return self._clean(await self._follow(request, kind))
        except ConnectionRefusedError:
            if not last:
                return None
            raise ServiceError(f"{name} cannot be reached; nothing was sent") from None
        except (OSError, ConfigError) as error:
            if isinstance(error, ConfigError):
                raise ServiceError(f"{name}: {error}") from None
            late = isinstance(error, TimeoutError)
            reason = "did not answer in time" if late else f"broke off the connection ({error})"
            if kind == "write":
                raise Unclear(f"{name} {reason}. {_MAYBE}") from None
            if not last:
                return None
            raise ServiceError(f"{name} {reason}; this was only a read, so try again") from None

    async def _follow(self, request: ServiceRequest, kind: Send) -> ServiceResponse:
        """Returns the answer, behind redirects of a read to the same server."""
        for _ in range(REDIRECTS + 1):
            response = await self._transport.send(request)
            target = response.headers.get("location", "")
            if response.status not in (301, 302, 303, 307, 308) or not target:
                return response
            name = self.account.service
            if kind == "write":
                text = f"{name} redirects this change ({response.status}): check its address"
                raise Unclear(f"{text}. {_MAYBE}", response.status)
            try:
                url = urljoin(request.url, target)
            except ValueError:
                url = ""
            if request.method != "GET" or _origin(url) != origin(self.account.url):
                raise ServiceError(
                    f"{name} redirects to another server or a sign-in page; it is not followed, "
                    "because the credentials would go there. Check its address and credentials",
                    response.status,
                )
            request = ServiceRequest("GET", url, request.headers, None, request.most)
        raise ServiceError(f"{self.account.service} redirects more than {REDIRECTS} times")

    def _clean(self, response: ServiceResponse) -> ServiceResponse:
        """Returns the answer without the credentials, which a service may echo."""
        body = response.body
        for secret in self._secrets:
            body = body.replace(secret.encode(), b"[credential]")
        return ServiceResponse(response.status, response.headers, body, response.cut)

    def _quotable(self, text: str) -> str:
        """Returns a server's text for an error; a fixed text if it may hold a credential."""
        forms = [text]
        for _ in range(_MOST_ESCAPES):
            forms.append(_unescaped(forms[-1]))
        packed = ["".join(form.split()).casefold() for form in forms]
        secrets = ["".join(secret.split()).casefold() for secret in self._secrets]
        found = any(secret in form for secret in secrets for form in packed)
        return _WITHHELD if found else text

    def _wait(self, response: ServiceResponse, kind: Send, attempt: int) -> float | None:
        """Returns the seconds until the request may be repeated; None if it may not be."""
        headers, status = response.headers, response.status
        limited = status == 429
        if status == 403 and (
            headers.get("x-ratelimit-remaining") == "0"
            or "retry-after" in headers
            or b"secondary rate limit" in response.body
        ):
            limited = True
        after = retry_after(headers, self._now)
        if limited:
            if after is not None:
                return after
            reset = headers.get("x-ratelimit-reset", "")
            if headers.get("x-ratelimit-remaining") == "0" and reset.isascii() and reset.isdigit():
                return bounded_wait(float(reset[:15]) - self._now())
            return _SECONDARY if b"secondary rate limit" in response.body else float(2**attempt)
        if kind == "read" and status in (502, 503, 504):
            return 0.5 * 2 ** (attempt - 1) if after is None else after
        return None

    def _refusal(self, response: ServiceResponse, kind: Send, wait: float | None) -> ServiceError:
        """Returns the error for the model: the status, its meaning, and the service's reason."""
        account, status = self.account, response.status
        # Checked before it is cut: a part of a credential is one, too.
        detail = clip(self._quotable(_printable(reason_of(response))), _REASON)
        because = f": {detail}" if detail else ""
        name = account.service
        if wait is not None and status in (403, 429):
            text = f"{name} has a rate limit; try again in {wait:.0f} s, or go on without it"
            return ServiceError(text, status)
        if status >= 500:
            text = f"{name} failed ({status}){because}"
            if kind == "write":
                return Unclear(f"{text}. {_MAYBE}", status)
            return ServiceError(text, status)
        known = {
            401: f"{name} refused the credentials (401): {account.names} must be renewed",
            403: f"{name} does not permit this to its account (403){because}",
            404: f"{name} has no such thing, or hides it from its account (404){because}",
            409: f"{name} reports a conflict (409){because}. Read the present state first",
        }
        other = f"{name} rejects the request ({status}){because}"
        return ServiceError(known.get(status, other), status)


_MAYBE: Final = "The change may have been made: look at the present state before repeating it"


def _authorization(account: ServiceAccount) -> str:
    if not account.user:
        return f"Bearer {account.token}"
    return f"Basic {b64encode(f'{account.user}:{account.token}'.encode()).decode()}"


def _forms(account: ServiceAccount, authorization: str) -> tuple[str, ...]:
    """Returns the credentials in all encodings in which an answer may hold them, longest first."""
    token = account.token
    plain = {token, authorization.partition(" ")[2]}
    packed = {token, f"{account.user}:{token}", f":{token}", f"{token}:"}
    for text in packed:
        for encoded in (b64encode(text.encode()), urlsafe_b64encode(text.encode())):
            plain |= {encoded.decode(), encoded.decode().rstrip("=")}
        plain.add(text.encode().hex())
    every = {form for text in plain for form in (text, quote(text, safe=""), quote_plus(text))}
    every |= {json.dumps(text)[1:-1] for text in every}
    every |= {text.replace("/", "\\/") for text in every}
    long = [text for text in every if len(text) >= _SHORTEST_SECRET]
    return tuple(sorted(long, key=lambda text: (-len(text), text)))


def _unescaped(text: str) -> str:
    """Returns the text without one level of escapes of JSON, HTML and URLs."""

    def char(match: re.Match[str]) -> str:
        code = match[1] or match[2]
        return chr(int(code, 16)) if code else match[3]

    return unquote(html.unescape(_ESCAPE.sub(char, text)))


def _origin(url: str) -> tuple[str, str, int] | None:
    """Returns the origin of a redirect; None if programs could read it differently."""
    if "\\" in url or not (url.isascii() and url.isprintable()):
        return None
    try:
        return None if "@" in urlsplit(url).netloc else origin(url)
    except ValueError:
        return None


def reason_of(response: ServiceResponse) -> str:
    """Returns the reason in an error body of any of the four services.

    Jira has `errorMessages` and `errors` by field, GitHub `message` and `errors`, Confluence v1
    `message` and v2 `errors` with titles. Jenkins answers with HTML, or a header `X-Error`.
    """
    try:
        body = json.loads(response.body)
    except (ValueError, RecursionError):
        is_page = "html" in response.headers.get("content-type", "")
        page = text_of_storage(response.body[:4000].decode("utf-8", "replace")) if is_page else ""
        return response.headers.get("x-error", "") or page
    if not is_object(body):
        return ""
    parts: list[str] = []
    messages = body.get("errorMessages")
    parts += [str(text) for text in messages] if is_array(messages) else []
    parts += [str(body["message"])] if isinstance(body.get("message"), str) else []
    errors = body.get("errors")
    if is_object(errors):
        parts += [f"{name}: {text}" for name, text in errors.items()]
    for error in errors if is_array(errors) else ():
        if not is_object(error):
            parts.append(str(error))
            continue
        words = [error.get(key) for key in ("resource", "field", "code", "title", "message")]
        parts.append(" ".join([str(word) for word in words if isinstance(word, str) and word]))
    return "; ".join(part for part in dict.fromkeys(parts) if part)


def _printable(text: str) -> str:
    return re.sub(r"\s+", " ", "".join(c if c.isprintable() else " " for c in text)).strip()


def segment(text: str, what: str) -> str:
    """Returns `text` escaped as exactly one segment of a path.

    Args:
        text: A name or id, as the model wrote it.
        what: The meaning of the text, for the message.

    Raises:
        ServiceError: It is empty, `.`, `..`, too long, or has characters that no name has.
    """
    bad = not text or text.strip(".") == "" or len(text) > 255
    if bad or any(ord(char) < 32 or ord(char) == 127 for char in text):
        raise ServiceError(f"{clip(repr(text), 80)} is no {what}")
    try:
        return quote(text, safe="")
    except UnicodeEncodeError:
        raise ServiceError(f"{clip(repr(text), 80)} is no {what}") from None


def segments(text: str, what: str) -> str:
    """Returns `text` escaped as several segments, separated by its own slashes.

    Args:
        text: Names with `/` between them, such as a branch or a job in folders.
        what: The meaning of the text, for the message.

    Raises:
        ServiceError: One of the names cannot be a segment.
    """
    return "/".join(segment(part, what) for part in text.split("/"))
