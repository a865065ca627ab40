"""`speculative`: one of the server's drafters, and no longer drafts than its, or a 400 that says which there are."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.scripted_backend import ScriptedBackend
from tests.services.conftest import Client

BODY = {"model": "m", "prompt": "hi"}
MIXED = {"method": "mixed", "drafters": [{"method": "suffix"}, {"method": "draft_model", "model": "d"}]}
SUFFIX = {"method": "suffix"}


@pytest.mark.parametrize(
    ("server", "method"), [(MIXED, "suffix"), (MIXED, "draft_model"), (SUFFIX, "suffix"), (SUFFIX, None), (None, None)]
)
async def test_it_reaches_the_engine(
    client: Client, backend: ScriptedBackend, server: dict[str, Any] | None, method: str | None
) -> None:
    async with client(speculative_config=server) as http:
        answer = await http.post("/v1/completions", json=BODY | {"speculative": {"method": method}})
    assert answer.status_code == 200, answer.text
    assert backend.seen[-1].speculative.method == method


@pytest.mark.parametrize(
    ("server", "method", "remedy"),
    [
        (MIXED, "dspark", "use 'suffix' or 'draft_model', or leave it out"),
        (MIXED, "mixed", "use 'suffix' or 'draft_model', or leave it out"),
        (SUFFIX, "dspark", "use 'suffix', or leave it out"),
        (None, "suffix", "there is none; leave it out"),
        (SUFFIX, "x" * 500, "..., no drafter here"),
    ],
)
async def test_a_name_that_is_none_of_them(
    client: Client, backend: ScriptedBackend, server: dict[str, Any] | None, method: str, remedy: str
) -> None:
    before = len(backend.seen)
    async with client(speculative_config=server) as http:
        answer = await http.post("/v1/completions", json=BODY | {"speculative": {"method": method}})
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, "speculative.method")
    assert method[:40] in error["message"]
    assert remedy in error["message"]
    assert len(backend.seen) == before


@pytest.mark.parametrize(
    ("server", "speculative", "longest"),
    [
        (SUFFIX, {"num_speculative_tokens": 17}, "drafts have at most 16"),
        (SUFFIX | {"num_speculative_tokens": 3}, {"num_speculative_tokens": 4}, "drafts have at most 3"),
        (MIXED, {"num_speculative_tokens": 17}, "drafts have at most 16"),
        (MIXED, {"num_speculative_tokens": 6, "method": "draft_model"}, "drafts of draft_model have at most 5"),
        (
            MIXED | {"num_speculative_tokens": 3},
            {"num_speculative_tokens": 4, "method": "suffix"},
            "drafts of suffix have at most 3",
        ),
        (None, {"num_speculative_tokens": 1}, "nothing drafts here; leave it out"),
    ],
)
async def test_no_longer_drafts_than_the_servers(
    client: Client, backend: ScriptedBackend, server: dict[str, Any] | None, speculative: dict[str, Any], longest: str
) -> None:
    before = len(backend.seen)
    async with client(speculative_config=server) as http:
        answer = await http.post("/v1/completions", json=BODY | {"speculative": speculative})
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, "speculative.num_speculative_tokens")
    assert f"is {speculative['num_speculative_tokens']}, but " in error["message"]
    assert longest in error["message"]
    assert len(backend.seen) == before
