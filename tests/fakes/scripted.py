"""Scripted drafters: ORACLE, ADVERSARY and PARTIAL(a) know what the target will say, and use it as they please."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from protos.messages import DraftChunk, DraftQuery, Tokens

SURVIVAL = 0.9


class Scripted:
    """A Drafter over a table of known continuations: prompt → the target's tokens.

    The first `right` tokens of a draft are the target's, the others wrong for certain. It proposes as far as the
    continuation is known, and nothing where the text has left it. With `tree`, each node gets a wrong sibling in front
    of it, so that the surviving path never lies in adjacent rows. `texts` are those of live requests,
    `finished` what is known of those that are over.
    """

    def __init__(
        self, answers: Mapping[Tokens, Tokens], *, vocab_size: int, right: int, tree: bool = False, source: str
    ) -> None:
        self._answers = dict(answers)
        self._vocab_size = vocab_size
        self._right = right
        self._tree = tree
        self._source = source
        self.texts: dict[str, list[int]] = {}
        self.finished: dict[str, list[int]] = {}

    def draft(self, queries: Sequence[DraftQuery]) -> Iterator[DraftChunk]:
        for query in queries:
            text = self.texts.get(query.request_id, [])
            if len(text) < query.tail_start:
                yield self._chunk(query, [], need_from=len(text))
                continue
            text = self.texts[query.request_id] = text[: query.tail_start] + list(query.tail)
            yield self._chunk(query, self._nodes(self._continuation(tuple(text)), query.budget))

    def close(self, request_id: str, *, tail_start: int = 0, tail: Tokens = ()) -> None:
        text = self.texts.pop(request_id, None)
        if text is not None:
            known = tail and len(text) >= tail_start
            self.finished[request_id] = text[:tail_start] + list(tail) if known else text

    def _continuation(self, text: Tokens) -> Tokens:
        for prompt, answer in self._answers.items():
            known = prompt + answer
            if len(text) >= len(prompt) and known[: len(text)] == text:
                return known[len(text) :]
        return ()

    def _nodes(self, truth: Tokens, budget: int) -> list[tuple[int, int, float]]:
        """(token, parent, survival) of at most `budget` nodes."""
        nodes: list[tuple[int, int, float]] = []
        parent, survival = -1, 1.0
        for depth, token in enumerate(truth):
            if self._tree:
                nodes.append((self._other(token, 2), parent, survival * (1 - SURVIVAL)))
            survival *= SURVIVAL
            nodes.append((token if depth < self._right else self._other(token, 1), parent, survival))
            parent = len(nodes) - 1
            if len(nodes) >= budget:
                break
        return nodes[: max(budget, 0)]

    def _other(self, token: int, by: int) -> int:
        return (token + by) % self._vocab_size

    def _chunk(
        self, query: DraftQuery, nodes: Sequence[tuple[int, int, float]], *, need_from: int | None = None
    ) -> DraftChunk:
        return DraftChunk(
            request_id=query.request_id,
            base_len=query.base_len,
            tokens=tuple(token for token, _, _ in nodes),
            parents=tuple(parent for _, parent, _ in nodes),
            survival=tuple(survival for _, _, survival in nodes),
            source=self._source,
            need_from=need_from,
        )


def oracle(answers: Mapping[Tokens, Tokens], *, vocab_size: int, tree: bool = False) -> Scripted:
    """Everything it proposes is accepted (with `tree`: every second node)."""
    return Scripted(answers, vocab_size=vocab_size, right=2**31, tree=tree, source="oracle")


def adversary(answers: Mapping[Tokens, Tokens], *, vocab_size: int, tree: bool = False) -> Scripted:
    """Nothing it proposes is accepted."""
    return Scripted(answers, vocab_size=vocab_size, right=0, tree=tree, source="adversary")


def partial(answers: Mapping[Tokens, Tokens], right: int, *, vocab_size: int, tree: bool = False) -> Scripted:
    """The first `right` tokens of each draft are accepted, no others."""
    return Scripted(answers, vocab_size=vocab_size, right=right, tree=tree, source=f"partial({right})")
