"""ModelConfig: the keys of `speculative_config` that every drafter with a model of its own takes."""

from __future__ import annotations

from dataclasses import dataclass

from drafters.checks import check_number

DTYPES = ("auto", "fp32", "bf16", "fp16", "float32", "bfloat16", "float16")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """model: name or path of the drafter's weights, None for those that come with paradraft for the target (see
    drafters.shipped). num_speculative_tokens: longest draft.

    draft_dtype, draft_device, draft_threads: None takes the target's. draft_kv_cache_gib bounds the drafter's own KV
    slots; requests beyond them get no drafts. min_survival: a token less likely than that to be reached and accepted
    is not proposed, nor what follows it.
    """

    model: str | None = None
    num_speculative_tokens: int = 5
    revision: str | None = None
    draft_dtype: str | None = None
    draft_device: str | None = None
    draft_threads: int | None = None
    draft_kv_cache_gib: float = 4.0
    min_survival: float = 0.0

    def __post_init__(self) -> None:
        if self.model is not None and (not isinstance(self.model, str) or not self.model):
            raise ValueError(
                f"speculative_config: model is {self.model!r}; give the name or path of a drafter's weights, "
                "or leave it out for those that come with paradraft"
            )
        if self.draft_dtype is not None and self.draft_dtype not in DTYPES:
            raise ValueError(
                f"speculative_config: draft_dtype is {self.draft_dtype!r}; it must be one of {', '.join(DTYPES)}"
            )
        check_number("num_speculative_tokens", self.num_speculative_tokens, int, 1, 64)
        check_number("draft_kv_cache_gib", self.draft_kv_cache_gib, float, 0.001, 1024)
        check_number("min_survival", self.min_survival, float, 0, 1)
        if self.draft_threads is not None:
            check_number("draft_threads", self.draft_threads, int, 1, 1024)

    @property
    def weights(self) -> str:
        """`model`, which drafters are only built with."""
        assert self.model is not None, "drafters.registry.resolved comes first"
        return self.model
