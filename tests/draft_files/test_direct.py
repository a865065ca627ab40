"""DirectDraftFiles: everything at once, and a failure waits for whoever checks."""

from __future__ import annotations

import pytest

from services.draft_files.direct import DirectDraftFiles
from tests.draft_files.rounds import paths
from tests.fakes.draft_files import POISON, ScriptedPretriever, continuation, credit, question


def test_what_is_added_is_there_and_what_is_asked_is_answered_at_once() -> None:
    pretriever = ScriptedPretriever()
    files = DirectDraftFiles(pretriever)
    files.add([continuation(4, 5, after=(1, 2))])
    assert pretriever.stored(1, 2) == {(4, 5): 1}
    files.ask([question(1, 2)])
    files.credit([credit(1, 2)])
    assert paths(files.answers()) == [[(4, 5)]]
    assert files.answers() == []
    assert pretriever.earned == [credit(1, 2)]
    assert files.status().up
    files.check()


def test_the_first_failure_is_kept_and_raised_by_check_alone() -> None:
    files = DirectDraftFiles(ScriptedPretriever())
    files.add([continuation(4, after=(POISON,))])
    files.add([continuation(4, after=(1,))])
    assert (files.status().up, files.status().reason) == (False, f"token {POISON}")
    with pytest.raises(RuntimeError, match=f"token {POISON}"):
        files.check()
