"""History that was rewritten behind the ledger's back: verify finds it, or verify with a single receipt."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from ledger.places import Clock, Place, new_book
from makewhole.ledger import LogDamaged, Receipt, database, writing
from makewhole.ledger.events import ORIGIN, chained
from makewhole.ledger.receipts import sign_together

COLUMNS = "seq, at, kind, about, body, hash"


@pytest.fixture
def book(where: Place, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> list[Receipt]:
    """A book of twenty events with a snapshot; returns all its receipts, in order."""
    monkeypatch.setattr(writing, "_SNAPSHOT_EVERY", 12)
    monkeypatch.setattr(writing, "_BYTES_PER_EVENT", 10**9)
    with where.open(clock=clock) as ledger:
        made = new_book(ledger)
        receipts = []
        for n in range(4):
            clock.pass_by(1)
            receipts.append(made.forecast(f"id {n}", mu=0.2 + n / 10))
            receipts.append(made.stake(f"id {n}", by="ann", stake=20 + n, key=f"ann {n}"))
            receipts.append(made.stake(f"id {n}", by="bob", stake=-30, key=f"bob {n}"))
            receipts.append(made.report(f"id {n}", n % 2))
        receipts += made.settle(key="all")
        receipts.append(made.deposit(5))
        ledger.verify(receipts)
        assert where.run("SELECT seq FROM snapshots")
    return receipts


def finds(place: Place, *receipts: Receipt) -> LogDamaged | None:
    """What verify finds, if anything."""
    with place.open() as ledger:
        try:
            ledger.verify([Receipt.from_json(one.to_json()) for one in receipts])
        except LogDamaged as damage:
            return damage
    return None


def log(place: Place) -> list[list[Any]]:
    return [list(row) for row in place.run(f"SELECT {COLUMNS} FROM events ORDER BY seq")]  # noqa: S608 - our own names


def rewrite(place: Place, rows: list[list[Any]], *, consistent: bool) -> None:
    """Put another log in place; its owner can also number and chain it anew, and drop what tells of it."""
    place.run("DELETE FROM events")
    previous = ORIGIN
    for number, row in enumerate(rows, 1):
        seq, at, kind, about, body, hash_ = row
        if consistent:
            seq = number
            hash_ = previous = chained(previous, "book", seq, at, kind, about, body)
        place.run(
            f"INSERT INTO events (book, {COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - our own names
            "book", seq, at, kind, about, body, bytes(hash_),
        )  # fmt: skip
    if consistent:
        place.run("DELETE FROM snapshots")
        place.run("DELETE FROM keys WHERE seq > ?", len(rows))


def with_body(row: list[Any], **changes: Any) -> list[Any]:
    body = json.dumps(json.loads(row[4]) | changes, separators=(",", ":"), sort_keys=True)
    return [*row[:4], body, row[5]]


def numbered(rows: list[list[Any]]) -> list[list[Any]]:
    return [[seq, *row[1:]] for seq, row in enumerate(rows, 1)]


def change_a_body(rows: list[list[Any]]) -> list[list[Any]]:
    return [*rows[:2], with_body(rows[2], by="eve"), *rows[3:]]


def change_a_price(rows: list[list[Any]]) -> list[list[Any]]:
    return [*rows[:2], with_body(rows[2], price=1), *rows[3:]]


def change_a_time(rows: list[list[Any]]) -> list[list[Any]]:
    return [*rows[:2], [rows[2][0], rows[2][1] + 1, *rows[2][2:]], *rows[3:]]


def turn_time_back(rows: list[list[Any]]) -> list[list[Any]]:
    return [*rows[:6], [rows[6][0], rows[6][1] - 10**9, *rows[6][2:]], *rows[7:]]


def drop_one(rows: list[list[Any]]) -> list[list[Any]]:
    return rows[:3] + rows[4:]


def drop_the_first(rows: list[list[Any]]) -> list[list[Any]]:
    return rows[1:]


def insert_one(rows: list[list[Any]]) -> list[list[Any]]:
    return numbered([*rows[:3], with_body(rows[2], by="eve"), *rows[3:]])


def swap_two(rows: list[list[Any]]) -> list[list[Any]]:
    return numbered([*rows[:2], rows[3], rows[2], *rows[4:]])


def cut_the_tail(rows: list[list[Any]]) -> list[list[Any]]:
    return rows[:-1]


def other_id(rows: list[list[Any]]) -> list[list[Any]]:
    return [*rows[:2], [*rows[2][:3], "id 9", *rows[2][4:]], *rows[3:]]


def spaces_in_a_body(rows: list[list[Any]]) -> list[list[Any]]:
    return [*rows[:2], [*rows[2][:4], rows[2][4].replace(":", ": "), rows[2][5]], *rows[3:]]


def drop_all(rows: list[list[Any]]) -> list[list[Any]]:
    return []


CHANGES = [
    change_a_body, change_a_price, change_a_time, turn_time_back, drop_one, drop_the_first, insert_one,
    swap_two, cut_the_tail, other_id, spaces_in_a_body, drop_all,
]  # fmt: skip
Change = Callable[[list[list[Any]]], list[list[Any]]]


@pytest.mark.parametrize("change", CHANGES)
def test_a_rewritten_log_is_found(where: Place, book: list[Receipt], change: Change) -> None:
    """As it is: the hashes do not fit, numbers are missing, or keys name events that are gone."""
    rewrite(where, change(log(where)), consistent=False)
    found = finds(where)
    if found is None:
        assert change is cut_the_tail, "a cut is found by keys, a snapshot or a receipt at or after it"
        found = finds(where, book[-1])
    assert found is not None


@pytest.mark.parametrize("change", CHANGES)
def test_a_log_that_its_owner_has_chained_anew_is_found_with_one_receipt(
    where: Place, book: list[Receipt], change: Change
) -> None:
    old = log(where)
    new = change(old)
    first = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), len(new)) + 1
    rewrite(where, new, consistent=True)
    for receipt in book:
        found = finds(where, receipt)
        if receipt.head[0] >= first or receipt.seq >= first:
            assert found is not None, f"not found by the receipt for event {receipt.seq}"


@pytest.mark.parametrize(
    "change", [change_a_price, turn_time_back, drop_one, drop_the_first, insert_one, other_id]
)
def test_a_log_that_breaks_the_rules_is_found_without_a_receipt(
    where: Place, book: list[Receipt], change: Change
) -> None:
    """However it is chained: a price that is not due, time that falls, sums that do not add up."""
    rewrite(where, change(log(where)), consistent=True)
    assert finds(where) is not None


def test_a_consistent_rewriting_passes_without_a_receipt_and_so_receipts_are_needed(
    where: Place, book: list[Receipt]
) -> None:
    """What nobody has a receipt for can be rewritten: here, who placed a stake, and its key's events stay."""
    rewrite(where, change_a_body(log(where)), consistent=True)
    assert finds(where) is None
    assert finds(where, book[0]) is None  # a forecast before the change
    assert finds(where, book[1]) is not None


def test_another_key_that_signs_again_is_found(where: Place, book: list[Receipt]) -> None:
    """The owner makes a new signing key, and signs all receipts again: the log names the old one."""
    where.key.rename(where.key.with_suffix(".old"))
    place = where._replace(key=where.key.with_suffix(".other"))
    with place.open() as ledger:
        forger = ledger._own_key()
    forged = [Receipt(one.event, one.previous) for one in book]
    for made, one in zip(forged, book, strict=True):
        sign_together([made], one.head, forger)
    assert finds(where, book[3]) is None
    for one in forged:
        one.check()  # it is consistent in itself
        found = finds(where, one)
        assert found is not None
        assert "key" in str(found)
    rows = log(where)
    rows[0] = with_body(rows[0], key=forger.public)
    rewrite(where, rows, consistent=True)
    assert finds(where) is None
    assert finds(where, book[3]) is not None


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE snapshots SET body = replace(body, '\"capital\":10000', '\"capital\":10001')",
        'UPDATE snapshots SET body = replace(body, \'"unit":"cent"\', \'"unit":"euro"\')',
        "UPDATE snapshots SET body = '{}'",
        "UPDATE snapshots SET body = 'no'",
        "UPDATE snapshots SET seq = seq + 1",
        "UPDATE snapshots SET seq = seq - 1",
        "UPDATE snapshots SET seq = 0",
        "UPDATE snapshots SET seq = -1",
        "UPDATE snapshots SET seq = 99",
        "UPDATE snapshots SET book = 'other'",
        "UPDATE keys SET first = 0 WHERE key = 'all'",
        "UPDATE keys SET first = seq + 2 WHERE key = 'all'",
        "UPDATE keys SET seq = 99 WHERE key = 'all'",
        "UPDATE keys SET book = 'other' WHERE key = 'all'",
    ],
)
def test_a_changed_snapshot_or_key_is_found(where: Place, book: list[Receipt], sql: str) -> None:
    assert finds(where) is None
    where.run(sql)
    assert finds(where) is not None


def test_a_snapshot_with_positions_as_earlier_versions_wrote_it_is_what_the_log_says(
    where: Place, book: list[Receipt]
) -> None:
    ((body,),) = where.run("SELECT body FROM snapshots")
    with_position = body.replace('"items":[', '"items":[[["position",2,"ann"],{"at_risk":14.0}],')
    for text in (with_position, with_position[:-1], with_position.replace('"forecaster"', '"forecast"')):
        where.run("UPDATE snapshots SET body = ?", text)
        assert (finds(where) is None) == (text is with_position)


def test_a_log_that_is_damaged_is_not_written_to(where: Place, book: list[Receipt]) -> None:
    where.run("DELETE FROM snapshots")
    where.run("UPDATE events SET body = replace(body, 'ann', 'eve') WHERE seq = 3")
    before = log(where)
    with where.open() as ledger:
        for _ in range(2):
            with pytest.raises(LogDamaged, match="event 3 was changed"):
                ledger.book("book").deposit(1)
    assert log(where) == before


def found_in_pages(place: Place, monkeypatch: pytest.MonkeyPatch) -> LogDamaged | None:
    """What verify finds, the same however many events it reads at a time."""
    found = []
    for page in (1, 2, 7, 5_000):
        monkeypatch.setattr(database, "_PAGE", page)
        found.append(finds(place))
    assert len({(str(damage), damage and damage.seq) for damage in found}) == 1
    return found[0]


@pytest.mark.parametrize("price", [False, True])
@pytest.mark.parametrize("later", ["hash", "missing", "not JSON", "more"])
def test_damage_is_named_by_its_first_event_whatever_comes_later(
    where: Place, book: list[Receipt], later: str, price: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = change_a_price(log(where)) if price else log(where)
    rows[8][4] = {"not JSON": "{", "more": rows[8][4] + " {}"}.get(later, rows[8][4])
    rewrite(where, rows, consistent=True)
    if later == "hash":
        where.run("UPDATE events SET hash = (SELECT hash FROM events WHERE seq = 8) WHERE seq = 9")
    elif later == "missing":
        where.run("DELETE FROM events WHERE seq = 9")
    found = found_in_pages(where, monkeypatch)
    assert found is not None
    assert found.seq == (3 if price else 10 if later == "missing" else 9)


def test_an_id_that_has_ended_stays_so_from_page_to_page(
    where: Place, book: list[Receipt], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A forecast for it that its owner has written behind the ledger's back is found, however late it is."""
    rows = log(where)
    again = next(row for row in rows if row[2] == "forecast")
    rewrite(where, [*rows, [0, rows[-1][1], *again[2:]]], consistent=True)
    found = found_in_pages(where, monkeypatch)
    assert found is not None
    assert found.seq == len(rows) + 1
    assert "was settled, which is final" in str(found)
    rewrite(where, rows, consistent=True)
    assert found_in_pages(where, monkeypatch) is None


# --- receipts -----------------------------------------------------------------------------------------------


def meaning(receipt: Receipt) -> tuple[Any, ...]:
    return (receipt.event, receipt.previous, receipt.head, tuple(map(str.lower, receipt.signed)))


@pytest.mark.slow
def test_any_changed_character_of_a_receipt_is_found(file: Place, clock: Clock) -> None:
    """Another character in any place, one dropped, one twice: an error, or the receipt reads the same."""
    with file.open(clock=clock) as ledger:
        made = new_book(ledger, "bücher")
        made.forecast("ä 1", mu=0.2)
        receipt = made.stake("ä 1", by="ann", stake=20, key="k")
        text = receipt.to_json()
        assert meaning(Receipt.from_json(text)) == meaning(receipt)
        same = 0
        for n, old in enumerate(text):
            for new in ("", old * 2, *'01aAbfF9 "\\,:{}[]\u00e9', chr(ord(old) ^ 1), old.swapcase()):
                changed = text[:n] + new + text[n + 1 :]
                if changed == text:
                    continue
                try:
                    again = Receipt.from_json(changed)
                except ValueError:
                    continue
                same += 1
                assert meaning(again) == meaning(receipt), f"{old!r} became {new!r} at {n}"
                ledger.verify([again])
        assert same < len(text), "spaces, and letters of hexadecimal numbers"


@pytest.mark.parametrize(
    "changes",
    [
        {"seq": "3"}, {"at": "5"}, {"seq": 3.0}, {"seq": True}, {"seq": None}, {"seq": -1}, {"book": 5},
        {"about": 5}, {"kind": None}, {"kind": "settled"}, {"body": {}}, {"body": None}, {"hash": "zz"},
        {"hash": 5}, {"head": []}, {"head": [3]}, {"head": [1e999, "00"]}, {"head": ["3", "00"]}, {"head": 5},
        {"key": ""}, {"key": None}, {"key": "00"}, {"signature": ""}, {"signature": 5}, {"receipt": 2},
        {"receipt": True}, {"receipt": None}, {"previous": ""}, {"previous": None}, {"salt": ""},
        {"salt": None}, {"salt": "00" * 16}, {"salt": "00" * 15}, {"beside": None}, {"beside": "00" * 32},
        {"beside": ["00" * 32]}, {"beside": ["00"]}, {"beside": [5]}, {"beside": {}},
    ],
    ids=str,
)  # fmt: skip
def test_a_receipt_with_another_kind_of_value_is_refused(file: Place, changes: dict[str, Any]) -> None:
    with file.open() as ledger:
        made = new_book(ledger)
        made.forecast("a", mu=0.5)
        receipt = made.stake("a", by="ann", stake=2)
    document = json.loads(receipt.to_json())
    if changes == {"at": "5"}:
        changes = {"at": str(document["at"])}
    if changes.get("head") == ["3", "00"]:
        changes = {"head": ["3", document["head"][1]]}
    with pytest.raises(ValueError, match="receipt"):
        Receipt.from_json(json.dumps(document | changes))


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "null", "5", "[" * 10**5, '{"receipt": 1}', "\ud800", '"a"']
)
def test_what_is_not_a_receipt_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="receipt"):
        Receipt.from_json(text)
