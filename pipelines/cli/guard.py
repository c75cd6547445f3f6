"""The guard between browsers and web servers without passwords.

Those are Dagster's and ``queuecast serve``.

A page on any site may send requests to a server on the machine of its visitor, and a site may give its own name the address of that
machine (DNS rebinding). So requests are served under known names only, from pages of those names only, and what changes anything
comes as JSON, which no page of another site can send without being asked for permission first.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qs

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

LARGEST = 16 << 20
"""Max bytes of a request's body."""
_READS = ("GET", "HEAD")


def allowed_hosts(host: str, port: int, names: Iterable[str] = ()) -> frozenset[str]:
    """Return the Host headers under which a server at ``host`` and ``port`` answers.

    These are ``host`` and the names of the loopback interface, each with the port, and ``names``: with the port that they state, or
    else with ``port`` and, for a proxy in front, without any.
    """
    found = {f"{_in_url(name)}:{port}" for name in ("localhost", "127.0.0.1", "::1", host)}
    for name in names:
        bare = is_address(name) or ":" not in name.rpartition("]")[2]
        found |= {_in_url(name), f"{_in_url(name)}:{port}"} if bare else {name}
    if port == 80:
        found |= {each.removesuffix(":80") for each in found}
    return frozenset(each.lower() for each in found)


def is_address(name: str) -> bool:
    """Tell whether ``name`` is an address of IPv4 or IPv6, not a name."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _in_url(name: str) -> str:
    return f"[{name}]" if ":" in name and not name.startswith("[") else name


class Refused(Exception):
    """A request that is not passed on: its HTTP status and the reason."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Guard:
    """An ASGI application that passes on to ``app`` only what :class:`Refused` does not name.

    ``hosts`` are those of :func:`allowed_hosts`, ``largest`` are the max bytes of a request's body.
    """

    def __init__(self, app: App, hosts: frozenset[str], largest: int = 0) -> None:
        self.app, self.hosts, self.largest = app, hosts, largest or LARGEST

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        try:
            headers = _headers(scope)
            self._check_sender(scope, headers)
            if scope["type"] == "http":
                _check_method(scope, headers)
                if scope["method"] == "POST":
                    receive = await _checked_body(receive, self.largest)
        except Refused as refused:
            await _refuse(scope, send, refused)
            return
        await self.app(scope, receive, _unframed(send))

    def _check_sender(self, scope: Message, headers: dict[str, list[str]]) -> None:
        """Raise Refused for another Host than the known, and for pages of other sites."""
        host = headers.get("host", [])
        if len(host) != 1 or host[0].lower() not in self.hosts:
            said = ", ".join(host) or "none"
            raise Refused(403, f"Host {said[:100]!r} is not served here; --allow-host NAME adds a name")
        socket = scope["type"] == "websocket"
        origin = headers.get("origin", [])
        if len(origin) > 1 or (socket and not origin) or any(not self._own(each) for each in origin):
            raise Refused(403, f"Origin {', '.join(origin)[:100]!r} may send nothing here")
        # pages of other ports of this machine are "same-site"; a link to a page may be followed from anywhere
        followed = not socket and scope["method"] in _READS and headers.get("sec-fetch-dest") == ["document"]
        if headers.get("sec-fetch-site", ["none"]) not in (["none"], ["same-origin"]) and not followed:
            raise Refused(403, "a page of another site may send nothing here")

    def _own(self, origin: str) -> bool:
        scheme, _, host = origin.lower().partition("://")
        return scheme in ("http", "https") and host in self.hosts


def _headers(scope: Message) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1").strip())
    return found


def _check_method(scope: Message, headers: dict[str, list[str]]) -> None:
    """Raise Refused for a change by GET, by a form, or by a query in the URL."""
    asked = parse_qs(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
    graphql = scope["path"].rstrip("/").endswith("/graphql")
    if scope["method"] in _READS:
        if graphql:
            for text in asked.get("query", []):
                _check_reads(text)
        return
    if scope["method"] != "POST":
        raise Refused(405, f"{scope['method'][:20]} is not served here")
    kind = [each.partition(";")[0].strip().lower() for each in headers.get("content-type", [])]
    if kind != ["application/json"]:
        raise Refused(415, "a POST request must be application/json")
    if graphql and "query" in asked:
        raise Refused(400, "a POST request states its query in its body, not in the URL")


def _check_reads(text: str) -> None:
    """Raise Refused unless every operation of a GraphQL document is a query."""
    from graphql import GraphQLError, OperationDefinitionNode, OperationType, parse

    try:
        document = parse(text, max_tokens=10_000)
    except (GraphQLError, RecursionError) as error:
        raise Refused(400, "the query cannot be parsed") from error
    for each in document.definitions:
        if isinstance(each, OperationDefinitionNode) and each.operation is not OperationType.QUERY:
            raise Refused(405, f"a {each.operation.value} must be sent by POST")


async def _checked_body(receive: Receive, largest: int) -> Receive:
    """Read a body and return a channel that repeats it; Refused for one too long or no object."""
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            break
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        more = message.get("more_body", False)
        if size > largest:
            raise Refused(413, f"a request may have {largest:,} bytes")
    body = b"".join(parts)
    try:
        sound = isinstance(json.loads(body), dict)
    except (ValueError, RecursionError):
        sound = False
    if not sound:
        raise Refused(400, "the body is not one JSON object")
    told = False

    async def again() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _refuse(scope: Message, send: Send, refused: Refused) -> None:
    if scope["type"] == "websocket":  # closed before it is accepted: the server answers 403
        await send({"type": "websocket.close", "code": 1008, "reason": "refused"})
        return
    body = f"{refused}\n".encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", b"%d" % len(body)),
        (b"x-content-type-options", b"nosniff"),
    ]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _unframed(send: Send) -> Send:
    """Add headers to every answer: no other site may frame it, and no type is guessed."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            more = [(b"x-frame-options", b"SAMEORIGIN"), (b"cross-origin-resource-policy", b"same-origin")]
            present = {name.lower() for name, _ in message.get("headers", [])}
            more += [(b"x-content-type-options", b"nosniff")] if b"x-content-type-options" not in present else []
            message = {**message, "headers": [*message.get("headers", []), *more]}
        await send(message)

    return sending
