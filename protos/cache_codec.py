"""Cache codec: the records of `protos.draft_files` as messages of cache.proto and back, checked both ways.

Whoever packs cannot send what the other side would refuse, and whoever unpacks need not trust the sender: FieldError
names the field, its value and what it must be. A namespace that several items share crosses once.
"""

from __future__ import annotations

from collections.abc import Sequence

from protos import cache_pb2
from protos.cache_fields import (
    MAX_HITS,
    MAX_TEXT,
    Names,
    checked_digest,
    checked_number,
    checked_text,
    checked_tokens,
    few,
    namespace_at,
    pack_hit,
    pack_prefix,
    unpack_hit,
    unpack_namespaces,
    unpack_prefix,
)
from protos.draft_files import MAX_PATH, Continuation, Credit, Findings, Question

MAX_MESSAGE_BYTES = 64 * 2**20


def pack_questions(questions: Sequence[Question]) -> cache_pb2.Questions:
    """Questions of one round."""
    message, names = cache_pb2.Questions(), Names()
    for place, one in enumerate(few(questions, "questions")):
        field = f"questions[{place}]"
        packed = message.questions.add()
        packed.request_id = checked_text(one.request_id, f"{field}.request_id")
        packed.namespace = names.place(one.namespace, field)
        pack_prefix(one.prefix, one.namespace, packed.prefix, f"{field}.prefix")
    message.namespaces.extend(names.packed)
    return message


def unpack_questions(message: cache_pb2.Questions) -> list[Question]:
    """What was asked."""
    namespaces = unpack_namespaces(message.namespaces)
    questions = []
    for place, one in enumerate(few(message.questions, "questions")):
        field = f"questions[{place}]"
        namespace = namespace_at(namespaces, one.namespace, field)
        prefix = unpack_prefix(one.prefix, namespace, f"{field}.prefix")
        request_id = checked_text(one.request_id, f"{field}.request_id")
        questions.append(Question(request_id=request_id, namespace=namespace, prefix=prefix))
    return questions


def pack_answers(findings: Sequence[Findings], error: str = "") -> cache_pb2.Answers:
    """error: how questions without findings failed."""
    message = cache_pb2.Answers(error=error[:MAX_TEXT])
    for place, found in enumerate(few(findings, "findings")):
        field = f"findings[{place}]"
        packed = message.findings.add()
        packed.request_id = checked_text(found.request_id, f"{field}.request_id")
        packed.length = checked_number(found.length, f"{field}.length")
        for rank, hit in enumerate(few(found.hits, f"{field}.hits", MAX_HITS)):
            pack_hit(hit, packed.hits.add(), f"{field}.hits[{rank}]")
    return message


def unpack_answers(message: cache_pb2.Answers) -> list[Findings]:
    """What was found."""
    answers = []
    for place, found in enumerate(few(message.findings, "findings")):
        field = f"findings[{place}]"
        hits = few(found.hits, f"{field}.hits", MAX_HITS)
        answers.append(
            Findings(
                request_id=checked_text(found.request_id, f"{field}.request_id"),
                length=checked_number(found.length, f"{field}.length"),
                hits=tuple(unpack_hit(hit, f"{field}.hits[{rank}]") for rank, hit in enumerate(hits)),
            )
        )
    return answers


def pack_continuations(continuations: Sequence[Continuation]) -> cache_pb2.Continuations:
    """Text to remember."""
    message, names = cache_pb2.Continuations(), Names()
    for place, one in enumerate(few(continuations, "continuations")):
        field = f"continuations[{place}]"
        packed = message.continuations.add()
        packed.namespace = names.place(one.namespace, field)
        pack_prefix(one.prefix, one.namespace, packed.prefix, f"{field}.prefix")
        packed.tokens.extend(checked_tokens(one.tokens, MAX_PATH, f"{field}.tokens"))
    message.namespaces.extend(names.packed)
    return message


def unpack_continuations(message: cache_pb2.Continuations) -> list[Continuation]:
    """Text to remember."""
    namespaces = unpack_namespaces(message.namespaces)
    continuations = []
    for place, one in enumerate(few(message.continuations, "continuations")):
        field = f"continuations[{place}]"
        namespace = namespace_at(namespaces, one.namespace, field)
        prefix = unpack_prefix(one.prefix, namespace, f"{field}.prefix")
        tokens = checked_tokens(tuple(one.tokens), MAX_PATH, f"{field}.tokens")
        continuations.append(Continuation(namespace=namespace, prefix=prefix, tokens=tokens))
    return continuations


def pack_credits(earned: Sequence[Credit]) -> cache_pb2.Credits:
    """What drafts from stored paths earned."""
    message, names = cache_pb2.Credits(), Names()
    for place, one in enumerate(few(earned, "credits")):
        field = f"credits[{place}]"
        packed = message.credits.add()
        packed.namespace = names.place(one.namespace, field)
        packed.digest = checked_digest(one.digest, f"{field}.digest")
        packed.accepted = checked_number(one.accepted, f"{field}.accepted")
    message.namespaces.extend(names.packed)
    return message


def unpack_credits(message: cache_pb2.Credits) -> list[Credit]:
    """What drafts from stored paths earned."""
    namespaces = unpack_namespaces(message.namespaces)
    return [
        Credit(
            namespace=namespace_at(namespaces, one.namespace, f"credits[{place}]"),
            digest=checked_digest(one.digest, f"credits[{place}].digest"),
            accepted=checked_number(one.accepted, f"credits[{place}].accepted"),
        )
        for place, one in enumerate(few(message.credits, "credits"))
    ]
