"""RowTable against a dict, through appends, deaths and forgetting."""

from __future__ import annotations

import numpy as np

from cache_service.storage.row_table import ENTRY, RowTable


def made(starts: np.ndarray) -> np.ndarray:
    entries = np.zeros(len(starts), ENTRY)
    entries["start"], entries["size"], entries["segment"] = starts, 8, starts % 3
    return entries


def test_it_knows_what_a_dict_knows() -> None:
    random = np.random.default_rng(0)
    table, known, dead = RowTable(), {}, set()
    for turn in range(60):
        starts = random.integers(0, 1000, random.integers(1, 400))
        rows = table.append(made(starts))
        known |= dict(zip(rows.tolist(), starts.tolist(), strict=True))
        alive = [row for row in known if row not in dead]
        some = random.choice(alive, len(alive) * 2 // 3, replace=False)
        killed = table.kill(np.concatenate([some, some[:5], [-1, 10**9]]))
        assert sorted(killed.tolist()) == sorted(some.tolist())
        dead |= set(some.tolist())
        moved = np.array([row for row in known if row not in dead][:10], np.int64)
        table.move(moved, made(moved % 1000))
        known |= {row: row % 1000 for row in moved.tolist()}

        asked = np.concatenate([random.permutation(len(known)), [-1, -5, len(known), 10**12]])
        positions = table.positions(asked)
        lives = np.array([row in known and row not in dead for row in asked.tolist()])
        assert (positions >= 0).tolist() == lives.tolist()
        assert table.at(positions[lives])["start"].tolist() == [known[row] for row in asked[lives].tolist()]
        assert len(table) == lives.sum() == len(table.live())
        for row in asked[:50].tolist():
            assert table.place(row) == ((known[row] % 3, 8 * known[row]) if row in known and row not in dead else None)
        for number in range(3):
            there = [row for row in known if row not in dead and known[row] % 3 == number]
            assert sorted(table.in_segment(number).tolist()) == sorted(there)
            assert table.live_bytes.get(number, 0) == 8 * len(there), turn
    assert len(table.entries) < len(known), "dead rows are forgotten"
