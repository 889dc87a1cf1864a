"""Build the OpenAPI document from the table of routes."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from makewhole.serve.api import ENDPOINTS, LONGEST_KEY, Endpoint
from makewhole.serve.problems import Problem

_PROBLEMS = {
    "400": "the body is not JSON",
    "401": "a key is needed",
    "403": "this key is not for that",
    "404": "there is no such book or id",
    "405": "not this method",
    "408": "the headers or the body did not come in time",
    "409": "refused, for a reason that the problem names",
    "413": "the body is too large",
    "422": "something is not valid",
    "429": "too many requests: wait as long as Retry-After says",
    "431": "the headers are too large",
    "503": "the ledger is not available now: ask again with the same Idempotency-Key",
}


def document(version: str) -> dict[str, Any]:
    """Return the document: every route with its roles, its body, its answer, and its possible problems."""
    kinds = [Problem, *(e.answer for e in ENDPOINTS), *(e.body for e in ENDPOINTS if e.body is not None)]
    schemas, parts = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    of = dict(zip(map(repr, kinds), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, of)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "makewhole",
            "version": version,
            "description": "Forecasts that stand behind themselves: quotes, stakes, outcomes over a ledger."
            " Amounts are whole units. What has an Idempotency-Key is done once, however often it is sent.",
        },
        "paths": paths,
        "components": {
            "schemas": parts,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _media(endpoint: Endpoint) -> str:
    return "application/x-ndjson" if endpoint.lines else "application/json"


def _operation(endpoint: Endpoint, of: dict[str, Any]) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", endpoint.path)
    ]
    for name, default, least, most in endpoint.query:
        schema = {"type": "integer", "minimum": least, "maximum": most, "default": default}
        parameters.append({"name": name, "in": "query", "required": False, "schema": schema})
    if endpoint.keyed:
        text = {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY}
        parameters.append({"name": "Idempotency-Key", "in": "header", "required": False, "schema": text})
    problem = {"application/problem+json": {"schema": of[repr(Problem)]}}
    answers: dict[str, Any] = {
        "200": {"description": "done", "content": {_media(endpoint): {"schema": of[repr(endpoint.answer)]}}}
    }
    answers |= {code: {"description": about, "content": problem} for code, about in _PROBLEMS.items()}
    made: dict[str, Any] = {
        "operationId": endpoint.handler.__name__,
        "summary": endpoint.summary,
        "description": "For everybody." if endpoint.roles is None else f"For: {', '.join(endpoint.roles)}.",
        "parameters": parameters,
        "responses": answers,
    }
    if endpoint.roles is not None:
        made["security"] = [{"key": []}]
    if endpoint.lines and endpoint.method == "POST":
        made["requestBody"] = {
            "required": True,
            "content": {_media(endpoint): {"schema": {"type": "string"}}},
        }
    if endpoint.body is not None:
        content = {"application/json": {"schema": of[repr(endpoint.body)]}}
        made["requestBody"] = {"required": True, "content": content}
    return made
