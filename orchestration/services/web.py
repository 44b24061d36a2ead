"""The web server of a project: Dagster's UI behind the access rules.

`holdfast up` starts it as a process; other pages of Holdfast are mounted in `build_app`.
"""

import argparse
import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import uvicorn
from dagster import DagsterInstance
from dagster._core.workspace.context import IWorkspaceProcessContext, WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster._utils.log import configure_loggers
from dagster_webserver.app import create_app_from_workspace_process_context
from dagster_webserver.version import __version__ as webserver_version
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.orchestration.services.access import (
    AccessRules,
    Refusal,
    WebRequest,
    list_allowed_hosts,
    read_token,
)
from holdfast.resources.private import keep_private

LOG_LEVEL = "warning"
_POLL_MILLISECONDS = 2000
_SHUTDOWN_SECONDS = 3
# Dagster's usual limits of a web server for its database.
_STATEMENT_MILLISECONDS, _POOL_RECYCLE_SECONDS, _POOL_OVERFLOW = 15000, 3600, 20
_PRIVATE = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}


class Guard:
    """Answers a request only if the access rules allow it; `?token=…` signs a browser in."""

    def __init__(self, app: ASGIApp, rules: AccessRules, *, cookie: str) -> None:
        self._app = app
        self._rules = rules
        self._cookie = cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        request = _read(connection, self._cookie)
        answer = self._sign_in(connection, request)
        refusal = None if answer else self._rules.refuse(request)
        if refusal is not None:
            answer = PlainTextResponse(f"{refusal.reason}\n", refusal.status, headers=_PRIVATE)
        if answer is None:
            await self._app(scope, receive, send)
        elif request.is_websocket:
            await send({"type": "websocket.close", "code": 1008})
        else:
            await answer(scope, receive, send)

    def _sign_in(self, connection: HTTPConnection, request: WebRequest) -> Response | None:
        """Answer `?token=…` with a cookie and a page that opens the same address without the token.

        A page instead of a redirect, since a browser sends no strict cookie after a redirect from elsewhere.
        """
        given = connection.query_params.get("token")
        if given is None or not request.is_navigation or not self._rules.is_known_host(request):
            return None
        if not self._rules.is_token(given):
            refusal = Refusal(401, "the token is not the one of this server: run `holdfast open`")
            return PlainTextResponse(f"{refusal.reason}\n", refusal.status, headers=_PRIVATE)
        address = html.escape(_without_token(connection))
        page = f'<!doctype html><meta http-equiv="refresh" content="0;url={address}">'
        answer = HTMLResponse(page, headers=_PRIVATE)
        answer.set_cookie(self._cookie, given, httponly=True, samesite="strict")
        return answer


def build_app(context: IWorkspaceProcessContext[Any], rules: AccessRules, *, port: int) -> ASGIApp:
    """The whole server. Browsers share cookies among the ports of a host, so the cookie's name has the port."""
    app = create_app_from_workspace_process_context(context, "", _POLL_MILLISECONDS)
    return Guard(app, rules, cookie=f"holdfast_{port}")


def serve(*, home: Path, workspace: Path, host: str, port: int, names: Sequence[str]) -> None:
    """Serve until SIGTERM; `DAGSTER_HOME` names the folder of Dagster."""
    configure_loggers(log_level=LOG_LEVEL.upper())
    rules = AccessRules(token=read_token(home), hosts=list_allowed_hosts(host, names))
    with DagsterInstance.get() as instance:
        instance.optimize_for_webserver(
            _STATEMENT_MILLISECONDS, _POOL_RECYCLE_SECONDS, _POOL_OVERFLOW
        )
        with WorkspaceProcessContext(
            instance,
            WorkspaceFileTarget([str(workspace)]),
            version=webserver_version,
            code_server_log_level=LOG_LEVEL,
        ) as context:
            uvicorn.run(
                build_app(context, rules, port=port),
                host=host,
                port=port,
                log_level=LOG_LEVEL,
                timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
            )


def _read(connection: HTTPConnection, cookie: str) -> WebRequest:
    headers = connection.headers
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    return WebRequest(
        method=connection.scope.get("method", "GET"),
        path=connection.scope["path"],
        host=headers.get("host", ""),
        is_websocket=connection.scope["type"] == "websocket",
        origin=headers.get("origin", ""),
        content_type=headers.get("content-type", ""),
        fetch_site=headers.get("sec-fetch-site", ""),
        fetch_mode=headers.get("sec-fetch-mode", ""),
        fetch_dest=headers.get("sec-fetch-dest", ""),
        bearer=credentials.strip() if scheme.lower() == "bearer" else "",
        cookie=connection.cookies.get(cookie, ""),
    )


def _without_token(connection: HTTPConnection) -> str:
    path = "/" + quote(connection.scope["path"].lstrip("/"))
    query = parse_qsl(connection.url.query, keep_blank_values=True)
    rest = urlencode([(name, value) for name, value in query if name != "token"])
    return f"{path}?{rest}" if rest else path


def main(arguments: Sequence[str] | None = None) -> None:
    keep_private()
    parser = argparse.ArgumentParser()
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--workspace", type=Path, required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--name", dest="names", action="append", default=[])
    serve(**vars(parser.parse_args(arguments)))


if __name__ == "__main__":
    main()
