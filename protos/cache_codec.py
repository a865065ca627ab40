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
    PackedNamespaces,
    checked_digest,
    checked_number,
    checked_text,
    checked_tokens,
    each,
    namespace_at,
    pack_hit,
    pack_prefix,
    unpack_hit,
    unpack_namespaces,
    unpack_prefix,
    unpack_tokens,
)
from protos.draft_files import MAX_PATH, Continuation, Credit, Findings, Question

MAX_MESSAGE_BYTES = 64 * 2**20


def pack_questions(questions: Sequence[Question]) -> cache_pb2.Questions:
    """Questions of one round."""
    namespaces = PackedNamespaces()

    def _packed(one: Question) -> cache_pb2.Question:
        return cache_pb2.Question(
            request_id=checked_text(one.request_id, "request_id"),
            namespace=namespaces.place(one.namespace),
            prefix=pack_prefix(one.prefix, one.namespace),
        )

    packed = each("questions", questions, _packed)
    return cache_pb2.Questions(namespaces=namespaces.messages, questions=packed)


def unpack_questions(message: cache_pb2.Questions) -> list[Question]:
    """What was asked."""
    namespaces = unpack_namespaces(message.namespaces)

    def _unpacked(one: cache_pb2.Question) -> Question:
        namespace = namespace_at(namespaces, one.namespace)
        return Question(
            request_id=checked_text(one.request_id, "request_id"),
            namespace=namespace,
            prefix=unpack_prefix(one.prefix, namespace),
        )

    return each("questions", message.questions, _unpacked)


def pack_answers(findings: Sequence[Findings], error: str = "") -> cache_pb2.Answers:
    """error: how questions without findings failed."""
    return cache_pb2.Answers(findings=each("findings", findings, _pack_findings), error=error[:MAX_TEXT])


def unpack_answers(message: cache_pb2.Answers) -> list[Findings]:
    """What was found."""
    return each("findings", message.findings, _unpack_findings)


def pack_continuations(continuations: Sequence[Continuation]) -> cache_pb2.Continuations:
    """Text to remember."""
    namespaces = PackedNamespaces()

    def _packed(one: Continuation) -> cache_pb2.Continuation:
        return cache_pb2.Continuation(
            namespace=namespaces.place(one.namespace),
            prefix=pack_prefix(one.prefix, one.namespace),
            tokens=checked_tokens(one.tokens, MAX_PATH, "tokens"),
        )

    packed = each("continuations", continuations, _packed)
    return cache_pb2.Continuations(namespaces=namespaces.messages, continuations=packed)


def unpack_continuations(message: cache_pb2.Continuations) -> list[Continuation]:
    """Text to remember."""
    namespaces = unpack_namespaces(message.namespaces)

    def _unpacked(one: cache_pb2.Continuation) -> Continuation:
        namespace = namespace_at(namespaces, one.namespace)
        return Continuation(
            namespace=namespace,
            prefix=unpack_prefix(one.prefix, namespace),
            tokens=unpack_tokens(one.tokens, MAX_PATH, "tokens"),
        )

    return each("continuations", message.continuations, _unpacked)


def pack_credits(earned: Sequence[Credit]) -> cache_pb2.Credits:
    """What drafts from stored paths earned."""
    namespaces = PackedNamespaces()

    def _packed(one: Credit) -> cache_pb2.Credit:
        return cache_pb2.Credit(
            namespace=namespaces.place(one.namespace),
            digest=checked_digest(one.digest),
            accepted=checked_number(one.accepted, "accepted"),
        )

    packed = each("credits", earned, _packed)
    return cache_pb2.Credits(namespaces=namespaces.messages, credits=packed)


def unpack_credits(message: cache_pb2.Credits) -> list[Credit]:
    """What drafts from stored paths earned."""
    namespaces = unpack_namespaces(message.namespaces)

    def _unpacked(one: cache_pb2.Credit) -> Credit:
        return Credit(
            namespace=namespace_at(namespaces, one.namespace),
            digest=checked_digest(one.digest),
            accepted=checked_number(one.accepted, "accepted"),
        )

    return each("credits", message.credits, _unpacked)


def _pack_findings(found: Findings) -> cache_pb2.Findings:
    return cache_pb2.Findings(
        request_id=checked_text(found.request_id, "request_id"),
        length=checked_number(found.length, "length"),
        hits=each("hits", found.hits, pack_hit, MAX_HITS),
    )


def _unpack_findings(packed: cache_pb2.Findings) -> Findings:
    return Findings(
        request_id=checked_text(packed.request_id, "request_id"),
        length=checked_number(packed.length, "length"),
        hits=tuple(each("hits", packed.hits, unpack_hit, MAX_HITS)),
    )
