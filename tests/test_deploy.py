"""The files in deploy: what they promise, and that every metric they use is one that the server has."""

import asyncio
import ipaddress
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from makewhole.ledger import Ledger
from makewhole.serve import Service, make_app
from makewhole.serve.api import ENDPOINTS
from makewhole.serve.bodies import MOST_LINES
from makewhole.serve.guard import HEADER_SECONDS, MOST_HEADERS

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
]
BOARD: dict[str, Any] = json.loads((DEPLOY / "grafana.json").read_text())
PINNED = re.compile(r"[\w./-]+:\d+\.\d+(\.\d+)?(-[\w.]+)*(@sha256:[0-9a-f]{64})?")


# --- compose ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_bounded_starts_again_and_writes_nowhere_else(name: str) -> None:
    service = SERVICES[name]
    assert service["restart"] == "unless-stopped"
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert re.fullmatch(r"\d+[mg]", service["mem_limit"])
    assert 0 < service["cpus"] <= 4
    assert 0 < service["pids_limit"] <= 1_000
    assert service["logging"]["options"].keys() == {"max-size", "max-file"}


def test_images_are_pinned_to_a_version() -> None:
    images = [service["image"] for service in SERVICES.values() if "image" in service]
    images += re.findall(r"^FROM (\S+)", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert len(images) == 4
    for image in images:
        assert PINNED.fullmatch(image), image


def test_only_the_proxy_is_reached_from_outside_and_only_it_is_trusted() -> None:
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["proxy"]
    address = SERVICES["proxy"]["networks"]["front"]["ipv4_address"]
    (network,) = COMPOSE["networks"]["front"]["ipam"]["config"]
    assert ipaddress.ip_address(address) in ipaddress.ip_network(network["subnet"])
    assert SERVICES["server"]["environment"]["FORWARDED_ALLOW_IPS"] == address
    assert COMPOSE["networks"]["back"]["internal"] is True
    assert SERVICES["database"]["networks"] == ["back"]


def test_the_server_caches_compiled_code_where_it_can_write() -> None:
    (cache,) = re.findall(r"NUMBA_CACHE_DIR=(\S+)", (DEPLOY / "Dockerfile").read_text())
    assert any(cache.startswith(f"{folder}/") for folder in SERVICES["server"]["tmpfs"])


def test_the_server_has_time_to_end() -> None:
    assert int(SERVICES["server"]["stop_grace_period"].removesuffix("s")) > 10


def test_volumes_secrets_and_networks_that_are_used_are_declared() -> None:
    for service in SERVICES.values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in COMPOSE["volumes"] or (DEPLOY / source).is_file()
        assert set(service.get("secrets", [])) <= COMPOSE["secrets"].keys()
        assert set(service["networks"]) <= COMPOSE["networks"].keys()


def test_the_proxy_ends_slow_clients_and_passes_what_the_server_takes() -> None:
    text = (DEPLOY / "Caddyfile").read_text()
    assert text.count("{") == text.count("}")
    assert f"max_header_size {MOST_HEADERS // 1_024}KiB" in text
    assert f"read_header {HEADER_SECONDS:g}s" in text
    assert re.search(r"read_body \d+s", text)
    assert "reverse_proxy server:8000" in text
    (most,) = re.findall(r"max_size (\d+)MiB", text)
    assert int(most) * 1_048_576 >= MOST_LINES


# --- what is measured ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a server with one book and one stake tells Prometheus."""
    with Ledger.open(tmp_path_factory.mktemp("deploy") / "books.db") as ledger:
        ledger.create("delays", capital=1_000, max_stake=100, unit="cent").forecast("x", mu=0.5)
        service = Service(ledger, rate=0.0)
        transport = httpx.ASGITransport(make_app(service))

        async def get() -> str:
            async with (
                service.running(),
                httpx.AsyncClient(transport=transport, base_url="http://x") as client,
            ):
                await client.post("/api/books/delays/stakes", json={})
                while not service.statements:
                    await asyncio.sleep(0.01)
                return (await client.get("/metrics")).text

        return asyncio.run(get())


def expressions() -> Iterator[tuple[str, str]]:
    """All queries of the alerts and of the board."""
    for rule in RULES:
        yield rule["alert"], rule["expr"]
    for panel in BOARD["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


@pytest.mark.parametrize(("where", "query"), [*expressions()])
def test_every_metric_that_is_asked_for_is_told(where: str, query: str, metrics: str) -> None:
    told = {line.split("{")[0].split(" ")[0] for line in metrics.splitlines() if not line.startswith("#")}
    asked = re.findall(r"\bmakewhole_\w+", query)
    assert set(asked) <= told
    assert asked or "up{" in query
    labels = set(re.findall(r'path="([^"]+)"', query))
    assert labels <= {endpoint.path for endpoint in ENDPOINTS}
    for name, label in re.findall(r"(makewhole_\w+){(\w+)=", query):
        assert re.search(rf"^{name}{{.*{label}=", metrics, re.MULTILINE)
    assert query.count("(") == query.count(")")


def test_metrics_have_types_and_numbers(metrics: str) -> None:
    typed = dict(re.findall(r"^# TYPE (\w+) (counter|gauge|histogram)$", metrics, re.MULTILINE))
    for line in metrics.splitlines():
        if line.startswith("#"):
            continue
        name, value = re.fullmatch(r"(\w+)(?:{.*})? (\S+)", line).groups()  # type: ignore[union-attr]  # or it fails
        float(value)
        assert re.sub(r"_(bucket|sum|count)$", "", name) in typed or name in typed
    counts = re.findall(r'answer_seconds_bucket{path="/api/books/{book}/stakes",le="[^"]+"} (\d+)', metrics)
    assert counts[-1] == "1"
    assert [int(count) for count in counts] == sorted(int(count) for count in counts)
    assert 'makewhole_book_forked{book="delays"} 0' in metrics
    assert re.search(r"^makewhole_queue \d+$", metrics, re.MULTILINE)
    assert re.search(r"^makewhole_unavailable 0$", metrics, re.MULTILINE)


def test_the_docs_name_every_alert_and_no_other() -> None:
    named = set(re.findall(r"`(Makewhole\w+)`", (ROOT / "docs" / "serve.md").read_text(encoding="utf-8")))
    assert named == {rule["alert"] for rule in RULES}
    for rule in RULES:
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"]


def test_the_board_shows_what_can_go_wrong() -> None:
    shown = {name for panel in BOARD["panels"] for one in panel["targets"] for name in names(one["expr"])}
    alarmed = {name for rule in RULES for name in names(rule["expr"])}
    assert alarmed <= shown
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])


def names(query: str) -> list[str]:
    """The metrics of a query."""
    return re.findall(r"\bmakewhole_\w+", query)
