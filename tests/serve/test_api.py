"""Every route: who may use it, what it answers, and that what is asked twice is done once."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makewhole.ledger import Receipt
from makewhole.serve.api import ENDPOINTS
from serve.served import BOOK, ROLES, Served, api, new_book, run, wait_for

pytestmark = pytest.mark.slow

Clients = dict[str | None, httpx.Client]
Publish = Callable[..., str]

# A request for each route that its own roles may make; ID stands for an id that is open.
REQUESTS: dict[tuple[str, str], Any] = {
    ("GET", api("statement")): None,
    ("GET", api("forecasts")): None,
    ("POST", api("quotes")): {"id": "ID", "payout": 1_000},
    ("POST", api("stakes")): {"id": "ID", "stake": 1_000},
    ("GET", api("positions")): None,
    ("POST", api("forecasts")): {"id": "ID", "mu": 0.4},
    ("POST", api("voids")): {"id": "ID", "reason": "fog"},
    ("POST", api("outcomes")): {"id": "ID", "outcome": 1},
    ("GET", api("events")): None,
    ("GET", api("receipts/2")): None,
    ("GET", api("log")): None,
    ("POST", api("requests")): None,
    ("POST", "/api/receipts/check"): {},
}


def request_for(method: str, path: str) -> tuple[str, str]:
    """The request that tries a route."""
    return method, path.replace("{book}", BOOK).replace("{seq}", "2")


def problem(answer: httpx.Response, status: int) -> dict[str, Any]:
    """The problem that an answer states; it must be one, with this status."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told: dict[str, Any] = answer.json()
    assert told["status"] == status
    assert told["title"]
    assert "Traceback" not in answer.text
    return told


def stake(client: httpx.Client, id_: str, much: int = 1_000, key: str | None = None, **more: Any) -> Any:
    """Ask for a stake."""
    headers = {} if key is None else {"idempotency-key": key}
    return client.post(api("stakes"), json={"id": id_, "stake": much, **more}, headers=headers)


def ended(clients: Clients, id_: str) -> Any:
    """Wait until an id is final; returns the event with which it ended."""
    read: list[Any] = []

    def look() -> Any:
        since = read[-1]["seq"] if read else 0
        read.extend(clients["auditor"].get(api("events"), params={"limit": 1_000, "since": since}).json())
        return [one for one in read if one["about"] == id_ and one["kind"] in ("settled", "voided")]

    (end,) = wait_for(look, f"the end of {id_}")
    return end


# --- who may do what ----------------------------------------------------------------------------------------


def test_every_route_is_tried_here() -> None:
    assert {request_for(one.method, one.path) for one in ENDPOINTS} == set(REQUESTS)


@pytest.mark.parametrize("role", [*ROLES, None])
@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda one: one.handler.__name__)
def test_a_route_is_for_its_own_roles_and_no_other(
    endpoint: Any, role: str | None, clients: Clients, publish: Publish
) -> None:
    method, path = request_for(endpoint.method, endpoint.path)
    body = REQUESTS[method, path]
    given = body if body is None else body | ({"id": publish()} if "id" in body else {})
    answer = clients[role].request(method, path, json=given)
    if endpoint.roles is None or role in endpoint.roles:
        # An empty receipt is none, and the second event is not the customer's own.
        mine = {"check": 422, "receipt": 200 if role == "auditor" else 403}
        assert answer.status_code == mine.get(endpoint.handler.__name__, 200), answer.text
    elif role is None:
        problem(answer, 401)
        assert answer.headers["www-authenticate"] == "Bearer"
    else:
        assert role in problem(answer, 403)["detail"]


@pytest.mark.parametrize(
    "given", ["Bearer mw_x_y", "Bearer", "Basic YTpi", "Bearer mw__", "x", "Bearer mw_0_é"]
)
def test_a_key_that_is_none_is_refused_also_where_none_is_needed(given: str, clients: Clients) -> None:
    headers = [(b"authorization", given.encode())]
    for path in (api("statement"), api("positions")):
        problem(clients[None].get(path, headers=headers), 401)


def test_a_secret_of_another_key_opens_nothing(server: Served, clients: Clients) -> None:
    _, id_, _ = server.texts["ann"].split("_", 2)
    _, _, secret = server.texts["the desk"].split("_", 2)
    headers = {"authorization": f"Bearer mw_{id_}_{secret}"}
    problem(clients[None].get(api("positions"), headers=headers), 401)


def test_a_revoked_key_is_worthless(server: Served, clients: Clients) -> None:
    server.keys({"bob": "customer"})
    with server.client("bob") as bob:
        assert bob.get(api("positions")).status_code == 200
        run("serve", "keys", "revoke", server.where, "--id", server.texts["bob"].split("_")[1])
        # Forty looks, a twentieth of a second apart.
        wait_for(lambda: bob.get(api("positions")).status_code == 401, "the key to be revoked", 40)
        problem(bob.get(api("statement")), 401)


# --- the life of a promise ----------------------------------------------------------------------------------


def test_a_promise_from_the_forecast_to_the_payment(clients: Clients, publish: Publish) -> None:
    id_ = publish(mu=0.2, closes="2100-01-01T12:00Z")
    asked = {"id": id_, "losses": {"fly": [0, 9_000], "train": [2_500, 2_500]}}
    quote = clients["customer"].post(api("quotes"), json=asked).json()
    assert (quote["action"], quote["stake"], quote["price"], quote["loss"]) == ("fly", 9_000, 1_980, 1_980)
    receipt = Receipt.from_json(stake(clients["customer"], id_, 9_000, price=1_980).text)
    assert receipt["price"] == 1_980
    said = clients["oracle"].post(api("outcomes"), json={"id": id_, "outcome": 1})
    assert Receipt.from_json(said.text)["by"] == "the airport"
    assert json.loads(ended(clients, id_)["body"])["payouts"] == 9_000
    (mine,) = [one for one in clients["customer"].get(api("positions")).json() if one["id"] == id_]
    assert (mine["seq"], mine["paid"], mine["ended"], mine["outcome"]) == (receipt.seq, 9_000, "settled", 1)
    again = clients["customer"].get(api(f"receipts/{receipt.seq}"))
    assert Receipt.from_json(again.text).hash == receipt.hash
    assert clients[None].post("/api/receipts/check", content=again.content).json()["in_the_log"]


def test_after_a_void_the_price_is_due_back(clients: Clients, publish: Publish) -> None:
    id_ = publish()
    price = Receipt.from_json(stake(clients["customer"], id_).text)["price"]
    assert clients["publisher"].post(api("voids"), json={"id": id_, "reason": "fog"}).status_code == 200
    (mine,) = [one for one in clients["customer"].get(api("positions")).json() if one["id"] == id_]
    assert (mine["ended"], mine["outcome"], mine["paid"]) == ("voided", None, price)


@settings(max_examples=30)
@given(
    mu=st.floats(0, 1),
    much=st.integers(-1_000_000, 1_000_000).filter(bool),
    role=st.sampled_from(["stake", "payout", "losses"]),
)
def test_a_quote_is_what_the_stake_then_costs(
    clients: Clients, publish: Publish, mu: float, much: int, role: str
) -> None:
    id_ = publish(mu=mu)
    much = abs(much) if role == "payout" else much
    asked: Any = {"a": [max(0, -much), max(0, much)]} if role == "losses" else much
    quote = clients["customer"].post(api("quotes"), json={"id": id_, role: asked}).json()
    assert quote["stake"] == much
    problem(stake(clients["customer"], id_, much, price=quote["price"] - 1), 409 if quote["price"] else 422)
    answer = stake(clients["customer"], id_, much, price=quote["price"])
    if not quote["room"][0] <= much <= quote["room"][1]:
        assert not 0.02 < mu < 0.98, "only there a stake on the likely side can win nothing"
        problem(answer, 409)
        return
    receipt = Receipt.from_json(answer.text)
    assert (receipt["price"], receipt["mu"], receipt["c"]) == (quote["price"], quote["mu"], quote["c"])


def test_who_stakes_and_who_reports_is_whom_the_key_names(clients: Clients, publish: Publish) -> None:
    id_ = publish()
    for route, body in (("stakes", {"stake": 5}), ("outcomes", {"outcome": 0})):
        role = "customer" if route == "stakes" else "oracle"
        problem(clients[role].post(api(route), json={"id": id_, "by": "bob", **body}), 422)
        receipt = Receipt.from_json(clients[role].post(api(route), json={"id": id_, **body}).text)
        assert receipt["by"] == ROLES[role]


def test_a_receipt_is_its_owners_and_the_auditors(server: Served, clients: Clients, publish: Publish) -> None:
    server.keys({"carol": "customer"})
    seq = Receipt.from_json(stake(clients["customer"], publish()).text).seq
    with server.client("carol") as carol:
        problem(carol.get(api(f"receipts/{seq}")), 403)
        assert carol.get(api("positions")).json() == []
    assert clients["auditor"].get(api(f"receipts/{seq}")).json()["seq"] == seq
    assert clients["customer"].get(api(f"receipts/{seq}")).json()["seq"] == seq


def test_what_is_public_names_nobody(clients: Clients, publish: Publish) -> None:
    id_ = publish()
    stake(clients["customer"], id_)
    clients["oracle"].post(api("outcomes"), json={"id": id_, "outcome": 1})
    ended(clients, id_)
    public = [api("statement"), api("forecasts"), "/metrics", "/ready", "/docs", "/openapi.json", "/"]
    public += [
        f"/books/{BOOK}",
        f"/books/{BOOK}/open",
        f"/books/{BOOK}/charts.json",
        f"/books/{BOOK}/about?id={id_}",
    ]
    for path in public:
        answer = clients[None].get(path, follow_redirects=True)
        assert answer.status_code == 200, (path, answer.text)
        for name in ("ann", "airport"):
            assert name not in answer.text.replace("planned", ""), path


def test_events_come_page_by_page(clients: Clients, publish: Publish) -> None:
    for _ in range(5):
        publish()
    whole = clients["auditor"].get(api("events"), params={"limit": 1_000}).json()
    pages: list[Any] = []
    while (
        page := clients["auditor"]
        .get(api("events"), params={"limit": 7, "since": pages[-1]["seq"] if pages else 0})
        .json()
    ):
        pages += page
        if len(pages) >= len(whole):
            break
    assert pages[: len(whole)] == whole
    assert [one["seq"] for one in whole] == list(range(1, len(whole) + 1))
    for params in ({"limit": 0}, {"limit": 1_001}, {"since": -1}, {"since": "x"}, {"limit": "²"}):
        problem(clients["auditor"].get(api("events"), params=params), 422)


# --- once ---------------------------------------------------------------------------------------------------


def test_the_same_key_is_the_same_receipt_and_another_request_is_refused(
    clients: Clients, publish: Publish
) -> None:
    id_ = publish()
    first = Receipt.from_json(stake(clients["customer"], id_, 700, "order 1").text)
    again = Receipt.from_json(stake(clients["customer"], id_, 700, "order 1").text)
    assert (again.event, again.previous) == (first.event, first.previous)
    assert "KeyConflict" in problem(stake(clients["customer"], id_, 701, "order 1"), 409)["type"]
    assert [one["id"] for one in clients["customer"].get(api("positions")).json()].count(id_) == 1


def test_two_customers_with_the_same_key_do_not_meet(
    server: Served, clients: Clients, publish: Publish
) -> None:
    server.keys({"dora": "customer"})
    id_ = publish()
    first = stake(clients["customer"], id_, 700, "order 2").json()
    with server.client("dora") as dora:
        second = stake(dora, id_, 900, "order 2").json()
    assert first["seq"] != second["seq"]
    assert json.loads(second["body"])["by"] == "dora"


@pytest.mark.parametrize("role", ["publisher", "oracle"])
def test_everything_that_is_stored_is_done_once(role: str, clients: Clients, publish: Publish) -> None:
    id_ = publish()
    verbs: dict[str, list[tuple[str, dict[str, Any]]]] = {
        "publisher": [("forecasts", {"id": id_, "mu": 0.3}), ("voids", {"id": id_, "reason": "fog"})],
        "oracle": [("outcomes", {"id": id_, "outcome": 1})],
    }
    for route, body in verbs[role]:
        headers = {"idempotency-key": f"{route} {id_}"}
        first, again = (clients[role].post(api(route), json=body, headers=headers).json() for _ in range(2))
        assert first["hash"] == again["hash"]


@pytest.mark.parametrize("key", ["", "x" * 201])
def test_an_idempotency_key_is_as_long_as_the_description_says(
    key: str, clients: Clients, publish: Publish
) -> None:
    problem(stake(clients["customer"], publish(), key=key), 422)


# --- what is refused says why -------------------------------------------------------------------------------


def test_a_refusal_names_the_rule_and_the_limit(clients: Clients, publish: Publish) -> None:
    id_, customer = publish(mu=0.2), clients["customer"]
    told = problem(stake(customer, id_, 9_000, price=1_979), 409)
    assert (told["type"], told["limit"]) == ("urn:makewhole:PriceRefused", 1_980)
    told = problem(stake(customer, id_, 20_000_001), 409)
    assert (told["type"], told["limit"]) == ("urn:makewhole:StakeRefused", 20_000_000)
    told = problem(customer.post(api("quotes"), json={"id": id_, "losses": {"a": [0, 2**40]}}), 409)
    assert told["limit"] == 20_000_000
    assert "UnknownSubject" in problem(stake(customer, "never published"), 404)["type"]
    assert "UnknownBook" in problem(customer.get(api("statement", "none")), 404)["type"]
    problem(clients["auditor"].get(api("receipts/999999999")), 404)
    clients["oracle"].post(api("outcomes"), json={"id": id_, "outcome": 1})
    assert problem(stake(customer, id_), 409)["type"].split(":")[-1] in ("StakingClosed", "SubjectFinal")
    ended(clients, id_)
    assert "SubjectFinal" in problem(stake(customer, id_), 409)["type"]
    past = {"id": "late", "mu": 0.5, "closes": "1999-01-01T00:00Z"}
    problem(clients["publisher"].post(api("forecasts"), json=past), 422)


def test_who_disagrees_with_a_report_is_told(server: Served) -> None:
    """With a hold, the first reporter may replace her report, and nobody else."""
    new_book(server.where, book="held", hold=3600)
    server.keys({"tower": "oracle"})
    with (
        server.client("the desk") as desk,
        server.client("the airport") as airport,
        server.client("tower") as tower,
    ):
        assert desk.post(api("forecasts", "held"), json={"id": "x", "mu": 0.5}).status_code == 200
        assert airport.post(api("outcomes", "held"), json={"id": "x", "outcome": 1}).status_code == 200
        told = problem(tower.post(api("outcomes", "held"), json={"id": "x", "outcome": 0}), 409)
        assert "ReportsDisagree" in told["type"]
        assert airport.post(api("outcomes", "held"), json={"id": "x", "outcome": 0}).status_code == 200


@pytest.mark.parametrize(
    "path", [api("statement"), api("forecasts"), api("stakes"), "/health", "/check", "/docs"]
)
def test_a_method_that_a_path_has_not_is_a_405_that_says_which_it_has(path: str, clients: Clients) -> None:
    has = {
        api("statement"): {"GET", "HEAD"},
        api("forecasts"): {"GET", "HEAD", "POST"},
        api("stakes"): {"POST"},
        "/check": {"GET", "HEAD", "POST"},
    }
    for method in ("PUT", "PATCH", "DELETE", "OPTIONS"):
        answer = clients["publisher"].request(method, path)
        problem(answer, 405)
        assert set(answer.headers["allow"].split(", ")) == has.get(path, {"GET", "HEAD"})


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/api",
        "/api/books",
        "/static/none.js",
        "/static/",
        "/static/%00",
        "/static/" + "x" * 3_000,
        "/static/..%2f..%2fapi.py",
        "/books/none",
        "/books/none/open",
        f"/books/{BOOK}/about?id=none",
    ],
)
def test_what_is_not_there_is_not_found(path: str, clients: Clients) -> None:
    assert clients[None].get(path).status_code == 404
