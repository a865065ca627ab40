"""What a client wants of a service: what ages with a stream, what is kept, and what is under way."""

from __future__ import annotations

import threading

import pytest

from services.draft_files import outgoing
from services.draft_files.outgoing import MAX_BATCH, MAX_QUESTIONS, Outgoing
from tests.draft_files.rounds import until
from tests.fakes.draft_files import continuation, credit, question


def opened() -> Outgoing:
    made = Outgoing()
    made.opened()
    return made


def changes(count: int) -> list[outgoing.Continuation]:
    return [continuation(4, after=(token,)) for token in range(count)]


def test_one_batch_is_under_way_at_a_time() -> None:
    out = opened()
    first, second, third = question(1), question(2), question(3)
    out.ask([first])
    assert out.next_questions(out.stream) == [first]
    assert out.owed_for > 0
    out.ask([second])
    out.ask([third])
    taken: list[object] = []
    sender = threading.Thread(target=lambda: taken.extend(out.next_questions(out.stream)))
    sender.start()
    assert out.answered() == 1
    sender.join(30)
    assert taken == [second, third]
    assert out.answered() == 2
    assert out.owed_for == 0


def test_questions_age_and_go_with_their_stream() -> None:
    out = Outgoing()
    out.ask([question(1)])
    assert out.counters["dropped_questions"] == 1
    out.opened()
    out.ask([question(token) for token in range(MAX_QUESTIONS + 5)])
    assert out.counters["dropped_questions"] == 6
    assert [one.prefix.tokens for one in out.next_questions(out.stream)[:2]] == [(5,), (6,)]
    stream = out.stream
    out.lost()
    assert out.next_questions(stream) == []
    assert out.counters["dropped_questions"] == 6 + MAX_QUESTIONS
    assert out.owed_for == 0


def test_what_a_lost_stream_could_not_send_is_lost_once() -> None:
    out = opened()
    out.ask([question(1)])
    stream = out.stream
    out.next_questions(stream)
    out.lost()
    out.refused(1, stream)
    out.opened()
    out.ask([question(2)])
    assert len(out.next_questions(out.stream)) == 1
    assert (out.counters["dropped_questions"], out.counters["errors"]) == (1, 0)


def test_questions_that_cannot_be_sent_make_way() -> None:
    out = opened()
    out.ask([question(1)])
    out.next_questions(out.stream)
    out.refused(1, out.stream)
    out.ask([question(2)])
    assert len(out.next_questions(out.stream)) == 1
    assert out.counters["errors"] == 1


def test_changes_come_in_their_order_and_again_where_they_were_not_taken() -> None:
    out = Outgoing()
    given = changes(MAX_BATCH + 1)
    out.keep(given)
    out.keep([credit(1)])
    out.opened()
    batch = out.next_changes()
    assert batch == given[:MAX_BATCH]
    out.put_back(batch)
    assert out.next_changes() == batch
    out.taken()
    assert out.next_changes() == given[MAX_BATCH:]
    out.taken()
    assert out.next_changes() == [credit(1)]


def test_of_too_many_changes_the_oldest_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outgoing, "MAX_KEPT", 2)
    out = opened()
    given = changes(4)
    out.keep(given[:2])
    batch = out.next_changes()
    out.keep(given[2:])
    out.put_back(batch)
    assert out.next_changes() == given[2:]
    assert out.counters["dropped_additions"] == 2


def test_closing_waits_for_what_is_under_way() -> None:
    out = opened()
    out.keep(changes(1))
    batch = out.next_changes()
    closing = threading.Thread(target=out.close, args=(30,))
    closing.start()
    until(lambda: out._closing)
    out.keep(changes(1))
    assert closing.is_alive()
    assert batch
    out.taken()
    closing.join(30)
    assert not closing.is_alive()
    assert out.next_changes() == []
    assert out.counters["dropped_additions"] == 1


def test_closing_drops_what_comes_back_later() -> None:
    out = opened()
    out.keep(changes(3))
    batch = out.next_changes()
    out.close(0)
    out.put_back(batch)
    assert out.counters["dropped_additions"] == 3
    assert out.next_changes() == []
