"""Which requests the web server answers: those with the token, under its own name, from its own pages.

Every web page in a browser of this host, and every user of this host, can reach a port of the loopback. So the name in
`Host` must be known (a foreign name may resolve to this address), `Origin` must be the server itself (pages of other
ports of this host count as the same site and send its cookie), and the caller must know the token.
"""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from holdfast.configs.declarations.deployment import LOOPBACK
from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.private import write_private

_EVERY_ADDRESS = {"0.0.0.0", "::"}  # noqa: S104 - they are names here, nothing listens on them
_OWN = {"", "same-origin", "none"}
_READING = {"GET", "HEAD"}
MISSING_TOKEN = "run `holdfast open` to sign in; scripts send `Authorization: Bearer TOKEN`"  # noqa: S105


@dataclass(frozen=True, slots=True, kw_only=True)
class WebRequest:
    """What the headers of a request say; an absent header is empty."""

    method: str
    path: str
    host: str
    is_websocket: bool = False
    origin: str = ""
    content_type: str = ""
    fetch_site: str = ""
    fetch_mode: str = ""
    fetch_dest: str = ""
    bearer: str = ""
    cookie: str = ""

    @property
    def is_graphql(self) -> bool:
        return self.path.rstrip("/").endswith("/graphql")

    @property
    def is_navigation(self) -> bool:
        """Whether a browser opens a page in a tab; also true of a client that is no browser and only reads."""
        return (
            self.method in _READING
            and not self.is_websocket
            and self.fetch_mode in {"", "navigate"}
            and self.fetch_dest in {"", "document"}
        )


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not answered."""

    status: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRules:
    """The rules of one web server."""

    token: str
    hosts: frozenset[str]

    def is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self.token.encode())

    def is_known_host(self, request: WebRequest) -> bool:
        return _name_of(request.host) in self.hosts

    def refuse(self, request: WebRequest) -> Refusal | None:
        """Find the first rule that the request violates."""
        if not self.is_known_host(request):
            return Refusal(403, "the server has another name: see dagster.allowed_hosts")
        if _is_foreign(request):
            return Refusal(403, "the request comes from a page of another server")
        if not self._has_token(request):
            return Refusal(401, MISSING_TOKEN)
        if _must_be_json_post(request) and not _is_json_post(request):
            return Refusal(
                403, "GraphQL and changes are answered only by POST with application/json"
            )
        return None

    def _has_token(self, request: WebRequest) -> bool:
        if request.bearer:
            return self.is_token(request.bearer)
        # A page that sends or subscribes says where it comes from.
        proves_origin = request.origin or (request.method in _READING and not request.is_websocket)
        return bool(proves_origin) and self.is_token(request.cookie)


def list_allowed_hosts(host: str, others: Iterable[str]) -> frozenset[str]:
    """The names under which the server answers: the loopback, the declared host and the declared names."""
    declared = {name.lower() for name in (host, *others)}
    return frozenset({*LOOPBACK, *declared} - _EVERY_ADDRESS)


def token_file(home: Path) -> Path:
    return home / "token"


def ensure_token(home: Path, chosen: str | None) -> str:
    """Write the token that the operator chose, or a new one unless there is one; only its owner can read the file."""
    file = token_file(home)
    if chosen is None and file.exists():
        file.chmod(0o600)
        return read_token(home)
    token = chosen or secrets.token_urlsafe(32)
    write_private(file, token)
    return token


def read_token(home: Path) -> str:
    try:
        token = token_file(home).read_text().strip()
    except FileNotFoundError:
        token = ""
    if not token:
        raise PermanentError(
            f"{token_file(home)} has no token",
            hint="run `holdfast down`, remove the file, then run `holdfast up`",
        )
    return token


def _is_foreign(request: WebRequest) -> bool:
    if request.origin and _netloc_of(request.origin) != request.host.lower():
        return True
    return request.fetch_site not in _OWN and not request.is_navigation


def _must_be_json_post(request: WebRequest) -> bool:
    """Whether a request may change something: Dagster has other addresses than GraphQL that record events."""
    changes = request.is_graphql or request.method not in _READING
    return changes and not request.is_websocket


def _is_json_post(request: WebRequest) -> bool:
    media_type = request.content_type.partition(";")[0].strip().lower()
    return request.method == "POST" and media_type == "application/json"


def _netloc_of(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _name_of(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
