"""Whatever the description allows, or does not: no error of ours, and no answer that it does not name."""

from collections.abc import Callable
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

import makewhole as mw
from makewhole.serve.api import ENDPOINTS
from makewhole.serve.openapi import document
from serve.served import BOOK, ROLES, Served

pytestmark = pytest.mark.slow

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
IDS = ("flight", "flight/2", "nothing")


@schemathesis.serializer("application/x-ndjson")
def lines(context: Any, value: Any) -> bytes:
    """What Schemathesis would send as lines, as bytes."""
    return str(value).encode(errors="replace")


def without_tuples(part: Any) -> Any:
    """The description with lists in place of tuples, which Schemathesis rewrites to what it then rejects."""
    if isinstance(part, list):
        return [without_tuples(one) for one in part]
    if not isinstance(part, dict):
        return part
    kept = {name: without_tuples(value) for name, value in part.items() if name != "prefixItems"}
    return kept | {"items": {"anyOf": part["prefixItems"]}} if "prefixItems" in part else kept


@pytest.fixture(scope="module")
def keys(server: Served, publish: Callable[..., str]) -> dict[str | None, dict[str, str]]:
    """The header of each role; two of the ids are open."""
    for id_ in IDS[:2]:
        publish(id_)
    made: dict[str | None, dict[str, str]] = {
        role: {"authorization": f"Bearer {server.texts[name]}"} for role, name in ROLES.items()
    }
    return made | {None: {}}


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda one: f"{one.method} {one.path}")
def test_every_answer_is_one_that_the_description_names(
    endpoint: Any, server: Served, keys: dict[str | None, dict[str, str]]
) -> None:
    told = without_tuples(document(mw.__version__))
    operation = schemathesis.openapi.from_dict(told)[endpoint.path][endpoint.method]
    modes = [operation.as_strategy(generation_mode=mode) for mode in schemathesis.GenerationMode]
    roles = st.sampled_from([*ROLES, None])
    # Else nearly every request would be for a book or an id that is not there, or with a key that is none.
    likely = [role for role in ROLES if endpoint.roles is None or role in endpoint.roles]

    @settings(max_examples=60, suppress_health_check=list(HealthCheck))
    @given(st.one_of(modes), st.sampled_from(likely) | roles, st.sampled_from([*IDS, None]), st.booleans())
    def ask(case: Any, role: str | None, id_: str | None, known: bool) -> None:
        if known and "book" in (case.path_parameters or {}):
            case.path_parameters["book"] = BOOK
        if id_ is not None and isinstance(case.body, dict) and isinstance(case.body.get("id"), str):
            case.body["id"] = id_
        answer = case.call(base_url=server.url, headers=keys[role])
        case.validate_response(answer, checks=CHECKS)

    ask()


def test_the_description_is_served_and_names_every_route(server: Served) -> None:
    with server.client() as client:
        told = client.get("/openapi.json").json()
    named = {(method.upper(), path) for path, methods in told["paths"].items() for method in methods}
    assert named == {(one.method, one.path) for one in ENDPOINTS}
    for methods in told["paths"].values():
        for operation in methods.values():
            assert ("security" in operation) == (operation["description"] != "For everybody.")
