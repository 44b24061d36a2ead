"""Which requests the web server answers."""

import stat
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.ft_policies.errors import PermanentError
from holdfast.orchestration.services.access import (
    AccessRules,
    Refusal,
    WebRequest,
    ensure_token,
    list_allowed_hosts,
    read_token,
    token_file,
)

TOKEN = "a-token-of-some-length"  # noqa: S105
RULES = AccessRules(token=TOKEN, hosts=list_allowed_hosts("127.0.0.1", ["Streams.example"]))
SELF = "http://127.0.0.1:3000"
PAGE = WebRequest(method="GET", path="/runs", host="127.0.0.1:3000", cookie=TOKEN)
QUERY = WebRequest(
    method="POST",
    path="/graphql",
    host="127.0.0.1:3000",
    origin=SELF,
    cookie=TOKEN,
    content_type="application/json",
    fetch_site="same-origin",
    fetch_mode="cors",
    fetch_dest="empty",
)
SUBSCRIPTION = WebRequest(
    method="GET",
    path="/graphql",
    host="127.0.0.1:3000",
    is_websocket=True,
    origin=SELF,
    cookie=TOKEN,
    fetch_mode="websocket",
)
SCRIPT = replace(QUERY, origin="", cookie="", bearer=TOKEN, fetch_site="", fetch_mode="")


@pytest.mark.parametrize(
    "request_",
    [
        PAGE,
        QUERY,
        SUBSCRIPTION,
        SCRIPT,
        replace(PAGE, host="streams.example"),
        replace(PAGE, host="[::1]:3000"),
        replace(PAGE, fetch_site="cross-site", fetch_mode="navigate", fetch_dest="document"),
        replace(QUERY, content_type="application/json; charset=utf-8"),
    ],
)
def test_pages_of_the_server_and_scripts_with_the_token_are_answered(request_: WebRequest) -> None:
    assert RULES.refuse(request_) is None


@pytest.mark.parametrize("request_", [PAGE, QUERY, SUBSCRIPTION, SCRIPT])
@pytest.mark.parametrize("host", ["attacker.example:3000", "127.0.0.1.attacker.example", "", "[::"])
def test_a_foreign_name_is_refused_even_with_the_token(request_: WebRequest, host: str) -> None:
    assert status(RULES.refuse(replace(request_, host=host))) == 403


@pytest.mark.parametrize("request_", [PAGE, QUERY, SUBSCRIPTION, SCRIPT])
@pytest.mark.parametrize(
    "origin", ["https://attacker.example", "http://127.0.0.1:4000", "null", "http://["]
)
def test_a_page_of_another_server_or_port_is_refused(request_: WebRequest, origin: str) -> None:
    assert status(RULES.refuse(replace(request_, origin=origin))) == 403


@pytest.mark.parametrize(
    "request_",
    [
        replace(PAGE, fetch_site="cross-site", fetch_mode="no-cors", fetch_dest="image"),
        replace(PAGE, fetch_site="same-site", fetch_mode="navigate", fetch_dest="iframe"),
        replace(QUERY, origin="", fetch_site="same-site"),
    ],
)
def test_an_image_a_frame_or_a_form_of_another_page_is_refused(request_: WebRequest) -> None:
    assert status(RULES.refuse(request_)) == 403


@pytest.mark.parametrize("request_", [PAGE, QUERY, SUBSCRIPTION, SCRIPT])
@pytest.mark.parametrize("given", ["", "another-token"])
def test_without_the_token_nothing_is_answered(request_: WebRequest, given: str) -> None:
    bearer = given if request_.bearer else ""

    assert status(RULES.refuse(replace(request_, cookie=given, bearer=bearer))) == 401


@pytest.mark.parametrize("request_", [QUERY, SUBSCRIPTION])
def test_a_cookie_alone_neither_sends_nor_subscribes(request_: WebRequest) -> None:
    assert status(RULES.refuse(replace(request_, origin="", fetch_site=""))) == 401


@pytest.mark.parametrize(
    "request_",
    [
        replace(PAGE, path="/graphql"),
        replace(PAGE, path="/graphql/"),
        replace(QUERY, content_type="text/plain"),
        replace(QUERY, content_type="application/graphql"),
        replace(SCRIPT, method="GET"),
        replace(QUERY, path="/report_asset_materialization/x", content_type="text/plain"),
        replace(QUERY, path="/report_asset_materialization/x", method="PUT"),
    ],
)
def test_graphql_and_changes_are_answered_only_by_post_with_json(request_: WebRequest) -> None:
    assert status(RULES.refuse(request_)) == 403


def test_every_address_is_no_name() -> None:
    assert list_allowed_hosts("0.0.0.0", []) == {"127.0.0.1", "localhost", "::1"}  # noqa: S104


def test_a_token_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    token = ensure_token(tmp_path, None)

    assert len(token) >= 32
    assert ensure_token(tmp_path, None) == read_token(tmp_path) == token
    assert stat.S_IMODE(token_file(tmp_path).stat().st_mode) == 0o600


def test_the_token_of_the_operator_replaces_the_one_that_was_made(tmp_path: Path) -> None:
    ensure_token(tmp_path, None)

    assert ensure_token(tmp_path, TOKEN) == read_token(tmp_path) == TOKEN


def test_a_home_without_a_token_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(PermanentError, match="no token"):
        read_token(tmp_path)


def status(refusal: Refusal | None) -> int:
    return 0 if refusal is None else refusal.status
