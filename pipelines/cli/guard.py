"""The guard between browsers and web servers without passwords.

The servers are Dagster's and ``queuecast serve``.

A page on any site may send requests to a server on its visitor's machine, and a site may give its own name the address of that
machine (DNS rebinding). So the guard serves requests only under the site's names (Starlette checks those), only from pages of
those names. A request that changes anything must be JSON, which a page of another site cannot send without permission (CORS).
"""

import re
from collections.abc import Iterable

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_READS = ("GET", "HEAD")
_HEADERS = {"x-frame-options": "SAMEORIGIN", "cross-origin-resource-policy": "same-origin", "x-content-type-options": "nosniff"}
"""Headers of every answer: no other site may frame or embed it, and browsers guess no type."""


def allowed_hosts(host: str, port: int, names: Iterable[str] = ()) -> frozenset[str]:
    """Return the names, with ports, under which a server at ``host`` and ``port`` answers.

    These are ``host`` and the names of the loopback interface, each with ``port``, and ``names``. A name without a port is
    allowed with ``port`` and, for a proxy in front, without any.
    """
    hosts = {f"{_in_url(name)}:{port}" for name in ("localhost", "127.0.0.1", "::1", host)}
    for name in names:
        bare = ":" not in _in_url(name).rpartition("]")[2]
        hosts |= {_in_url(name), f"{_in_url(name)}:{port}"} if bare else {name}
    if port == 80:
        hosts |= {each.removesuffix(":80") for each in hosts}
    return frozenset(each.lower() for each in hosts)


def _in_url(name: str) -> str:
    return f"[{name}]" if name.count(":") > 1 and not name.startswith("[") else name


def guarded(app: ASGIApp, hosts: Iterable[str]) -> ASGIApp:
    """Return ``app`` behind the guard; ``hosts`` are those of :func:`allowed_hosts`."""
    names = {re.sub(r":\d+$", "", each) for each in hosts}
    return TrustedHostMiddleware(OwnPages(app, hosts), sorted(names), www_redirect=False)


class OwnPages:
    """An ASGI application that passes requests of programs and of ``hosts``' pages to ``app``."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str]) -> None:
        self.app, self.origins = app, {f"{scheme}://{host}" for host in hosts for scheme in ("http", "https")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self.app
        if scope["type"] != "lifespan":
            try:
                self._check_sender(request := HTTPConnection(scope))
                if scope["type"] == "http":
                    _check_method(request)
            except HTTPException as refused:
                app = PlainTextResponse(f"{refused.detail}\n", refused.status_code)
        await app(scope, receive, _unframed(send))

    def _check_sender(self, request: HTTPConnection) -> None:
        """Raise HTTPException for no or two Hosts, and for pages of other sites."""
        headers, socket = request.headers, request.scope["type"] == "websocket"
        if len(headers.getlist("host")) != 1:
            raise HTTPException(400, "a request has one Host")
        origins = headers.getlist("origin")
        if (socket and not origins) or any(each.lower() not in self.origins for each in origins):
            raise HTTPException(403, f"Origin {', '.join(origins)[:100]!a} may send nothing here; --allow-host NAME adds a name")
        # pages of other ports of this machine are "same-site"; a link to a page may be followed from anywhere
        followed = not socket and request.scope["method"] in _READS and headers.getlist("sec-fetch-dest") == ["document"]
        if not followed and any(each not in ("none", "same-origin") for each in headers.getlist("sec-fetch-site")):
            raise HTTPException(403, "a page of another site may send nothing here")


def _check_method(request: HTTPConnection) -> None:
    """Raise HTTPException for a change by GET, by a form, or by a query in the URL."""
    method, graphql = request.scope["method"], request.scope["path"].rstrip("/").endswith("/graphql")
    queries = request.query_params.getlist("query") if graphql else []
    if method in _READS:
        for text in queries:
            _check_reads(text)
        return
    if method != "POST":
        raise HTTPException(405, f"{method[:20]} is not served here")
    if [each.partition(";")[0].strip().lower() for each in request.headers.getlist("content-type")] != ["application/json"]:
        raise HTTPException(415, "a POST request must be application/json")
    if queries:
        raise HTTPException(400, "a POST request has its query in its body, not in the URL")


def _check_reads(text: str) -> None:
    """Raise HTTPException unless every operation of a GraphQL document is a query."""
    from graphql import GraphQLError, OperationDefinitionNode, OperationType, parse

    try:
        document = parse(text, max_tokens=10_000)
    except (GraphQLError, RecursionError) as error:
        raise HTTPException(400, "the query cannot be parsed") from error
    for each in document.definitions:
        if isinstance(each, OperationDefinitionNode) and each.operation is not OperationType.QUERY:
            raise HTTPException(405, f"a {each.operation.value} must be sent by POST")


def _unframed(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message.setdefault("headers", [])
            MutableHeaders(scope=message).update(_HEADERS)
        await send(message)

    return sending
