"""sampling_params: the sampling fields of a body as the engine's record, checked against the model and the limits."""

from __future__ import annotations

import re

from protos.field_error import FieldError
from protos.messages import Tokens
from protos.sampling_params import SamplingParams
from services.backend import ModelCard
from services.config import Limits
from services.openai_api.errors import invalid
from services.openai_api.schema import GenerationRequest
from services.request_fields import short

_TOKEN_ID = re.compile("0|[1-9][0-9]{0,8}")  # one way to write each: two keys of one token would hide a value


def sampling_params(body: GenerationRequest, prompt_ids: Tokens, card: ModelCard, limits: Limits) -> SamplingParams:
    """The parameters for one prompt. max_tokens is always set: given, or all that the context still holds."""
    if body.n > limits.max_n:
        raise invalid(f"n is {body.n}; this server gives at most {limits.max_n} answers", "n")
    if len(body.stop) > limits.max_stop:
        raise invalid(f"stop has {len(body.stop)} strings; at most {limits.max_stop} are allowed", "stop")
    try:
        return SamplingParams(
            temperature=body.temperature,
            top_k=body.top_k,
            top_p=body.top_p,
            min_p=body.min_p,
            presence_penalty=body.presence_penalty,
            frequency_penalty=body.frequency_penalty,
            repetition_penalty=body.repetition_penalty,
            logit_bias=_logit_bias(body, card),
            seed=body.seed,
            n=body.n,
            max_tokens=_max_tokens(body, prompt_ids, card),
            min_tokens=body.min_tokens,
            stop=tuple(body.stop),
            stop_token_ids=_stop_token_ids(body, card),
            ignore_eos=body.ignore_eos,
            include_stop_str_in_output=body.include_stop_str_in_output,
            logprobs=body.num_logprobs(),
        )
    except FieldError as error:
        raise invalid(str(error), error.field) from None


def _max_tokens(body: GenerationRequest, prompt_ids: Tokens, card: ModelCard) -> int:
    room = card.max_model_len - len(prompt_ids)
    if room < 1:
        raise invalid(
            f"the prompt has {len(prompt_ids)} tokens; this model holds {card.max_model_len} with the answer's",
            "messages" if "messages" in type(body).model_fields else "prompt",
        )
    wanted = body.token_limit()
    if wanted is not None and wanted > room:
        raise invalid(
            f"max_tokens is {wanted}; this model holds {card.max_model_len} tokens, of which the prompt takes "
            f"{len(prompt_ids)}, so at most {room} are possible",
            "max_tokens" if body.max_tokens is not None else "max_completion_tokens",
        )
    return wanted or min(room, body.default_tokens or room)


def _logit_bias(body: GenerationRequest, card: ModelCard) -> dict[int, float]:
    biases: dict[int, float] = {}
    for key, bias in body.logit_bias.items():
        if not _TOKEN_ID.fullmatch(key) or int(key) >= card.vocab_size:
            raise invalid(
                f"logit_bias has key {short(key)}; keys are token ids, 0 to {card.vocab_size - 1}", "logit_bias"
            )
        biases[int(key)] = bias
    return biases


def _stop_token_ids(body: GenerationRequest, card: ModelCard) -> Tokens:
    for token in body.stop_token_ids:
        if not 0 <= token < card.vocab_size:
            raise invalid(
                f"stop_token_ids has {token}; ids of this model are 0 to {card.vocab_size - 1}", "stop_token_ids"
            )
    return tuple(body.stop_token_ids)
