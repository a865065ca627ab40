"""LLM: vLLM's offline interface over the real engine, on a tiny random model."""

from __future__ import annotations

import itertools
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from paradraft import LLM, SamplingParams
from protos.messages import Finish
from services.outputs import CompletionOutput, RequestOutput

SUFFIX = {"method": "suffix", "num_speculative_tokens": 6}
PROMPTS = ["abcabcabc", "to be or not to be", "\n\n", "Ελλάδα 🙂"]
GREEDY = SamplingParams(temperature=0, max_tokens=40, ignore_eos=True)


def make(model: str, **options: object) -> LLM:
    return LLM(model, dtype="fp32", device="cpu", threads=1, max_num_seqs=4, max_model_len=512, **options)


@pytest.fixture(scope="module")
def plain(model: str) -> Iterator[LLM]:
    with make(model) as llm:
        yield llm


@pytest.fixture(scope="module")
def drafted(model: str) -> Iterator[LLM]:
    with make(model, speculative_config=SUFFIX) as llm:
        yield llm


def only(outputs: list[RequestOutput]) -> CompletionOutput:
    (output,) = outputs
    (answer,) = output.outputs
    return answer


def test_speculation_changes_the_statistics_and_not_the_text(plain: LLM, drafted: LLM) -> None:
    sampled = SamplingParams(temperature=1.0, top_p=0.9, seed=3, max_tokens=40)
    for params in (GREEDY, sampled):
        without = plain.generate(PROMPTS, params, use_tqdm=False)
        with_drafts = drafted.generate(PROMPTS, params, use_tqdm=False)
        assert [o.outputs[0].token_ids for o in without] == [o.outputs[0].token_ids for o in with_drafts]
        assert [o.outputs[0].text for o in without] == [o.outputs[0].text for o in with_drafts]
    assert plain.stats().speculation.num_drafts == 0
    assert drafted.stats().speculation.num_drafts > 0


def test_statistics_of_a_request_add_up(drafted: LLM) -> None:
    answer = only(drafted.generate("abcabcabc", GREEDY, use_tqdm=False))
    drafts = answer.stats.speculation
    assert 0 < drafts.accepted <= drafts.verified <= drafts.drafted
    assert drafts.accepted == len(answer.token_ids) - answer.sources.count("")
    assert answer.stats.steps == answer.sources.count("")
    assert set(answer.sources) == {"", "suffix"}


def test_outputs_have_the_order_of_the_prompts_and_vllms_fields(plain: LLM) -> None:
    outputs = plain.generate(PROMPTS, GREEDY, use_tqdm=False)
    assert [output.prompt for output in outputs] == PROMPTS
    tokenizer = plain.get_tokenizer()
    for output in outputs:
        answer = output.outputs[0]
        assert output.finished
        assert list(output.prompt_token_ids) == tokenizer(output.prompt)["input_ids"]
        assert answer.text == tokenizer.decode(answer.token_ids, skip_special_tokens=True)
        assert (answer.index, answer.finish_reason, answer.stop_reason) == (0, "length", None)
        assert len(answer.token_ids) == 40
    assert len({output.request_id for output in outputs}) == len(PROMPTS)


def test_a_prompt_may_be_text_ids_or_a_mapping(plain: LLM) -> None:
    ids = plain.get_tokenizer()("hello")["input_ids"]
    forms = ["hello", ids, {"prompt": "hello"}, {"prompt_token_ids": ids}]
    at_once = plain.generate(forms, GREEDY, use_tqdm=False)
    one_by_one = [plain.generate(form, GREEDY, use_tqdm=False)[0] for form in forms]
    assert len({o.outputs[0].token_ids for o in at_once + one_by_one}) == 1
    assert [o.prompt for o in at_once] == ["hello", None, "hello", None]


def test_defaults_are_vllms(plain: LLM) -> None:
    answer = only(plain.generate("hello", use_tqdm=False))
    assert len(answer.token_ids) == 16 or answer.finish_reason == "stop"
    again = only(plain.generate("hello", SamplingParams(seed=answer.seed), use_tqdm=False))
    assert again.token_ids == answer.token_ids


def test_n_answers_differ_and_the_first_is_that_of_n_1(plain: LLM) -> None:
    params = SamplingParams(n=3, seed=5, max_tokens=20)
    (output,) = plain.generate("hello", params, use_tqdm=False)
    assert [answer.index for answer in output.outputs] == [0, 1, 2]
    assert len({answer.token_ids for answer in output.outputs}) == 3
    alone = only(plain.generate("hello", SamplingParams(seed=5, max_tokens=20), use_tqdm=False))
    assert alone.token_ids == output.outputs[0].token_ids
    unseeded = plain.generate("hello", SamplingParams(n=2, max_tokens=20), use_tqdm=False)[0].outputs
    assert unseeded[0].token_ids != unseeded[1].token_ids


def test_params_may_be_given_for_each_prompt(plain: LLM) -> None:
    each = [SamplingParams(temperature=0, max_tokens=n, ignore_eos=True) for n in (1, 2, 3)]
    outputs = plain.generate(PROMPTS[:3], each, use_tqdm=False)
    assert [len(o.outputs[0].token_ids) for o in outputs] == [1, 2, 3]
    with pytest.raises(ValueError, match="2 sampling_params for 3 prompts"):
        plain.generate(PROMPTS[:3], each[:2], use_tqdm=False)


def test_logprobs_have_one_entry_a_token_with_vllms_shape(drafted: LLM) -> None:
    params = SamplingParams(temperature=0, max_tokens=12, logprobs=2, ignore_eos=True)
    answer = only(drafted.generate("abcabc", params, use_tqdm=False))
    assert answer.logprobs is not None
    assert len(answer.logprobs) == 12
    for token, step in zip(answer.token_ids, answer.logprobs, strict=True):
        assert step[token].rank == 1
        assert {entry.rank for entry in step.values()} == {1, 2}
        assert all(entry.logprob < 0 for entry in step.values())
    assert answer.cumulative_logprob == pytest.approx(
        sum(step[t].logprob for t, step in zip(answer.token_ids, answer.logprobs, strict=True))
    )
    assert only(drafted.generate("abc", GREEDY, use_tqdm=False)).logprobs is None


def test_chat_renders_the_template_once(plain: LLM) -> None:
    message = [{"role": "user", "content": "hello"}]
    (output,) = plain.chat(message, GREEDY, use_tqdm=False)
    assert output.prompt == "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    many = plain.chat([message, message], GREEDY, use_tqdm=False)
    assert [each.outputs[0].token_ids for each in many] == [output.outputs[0].token_ids] * 2


def test_more_prompts_than_the_queue_holds_are_all_answered(model: str) -> None:
    with make(model, max_waiting=1) as llm:
        outputs = llm.generate([f"prompt {i}" for i in range(12)], GREEDY, use_tqdm=False)
    assert [output.prompt for output in outputs] == [f"prompt {i}" for i in range(12)]
    assert all(len(output.outputs[0].token_ids) == 40 for output in outputs)


def test_a_prompt_that_does_not_fit_stops_the_batch_before_it_runs(plain: LLM) -> None:
    before = plain.stats().generation_tokens
    with pytest.raises(ValueError, match="512"):
        plain.generate(["fine", "x" * 600], GREEDY, use_tqdm=False)
    with pytest.raises(ValueError, match="token id 9999"):
        plain.generate([[1, 2], [9999]], GREEDY, use_tqdm=False)
    assert plain.stats().generation_tokens == before


def test_stream_gives_the_same_text_in_pieces(drafted: LLM) -> None:
    verdicts = list(drafted.stream("abcabcabc", GREEDY))
    whole = only(drafted.generate("abcabcabc", GREEDY, use_tqdm=False))
    assert "".join(verdict.text for verdict in verdicts) == whole.text
    assert [verdict.finish for verdict in verdicts[:-1]] == [None] * (len(verdicts) - 1)
    assert verdicts[-1].finish is Finish.LENGTH
    with pytest.raises(ValueError, match="n is 2"):
        list(drafted.stream("a", SamplingParams(n=2)))


def test_a_stream_goes_on_after_others_have_run_in_between(drafted: LLM) -> None:
    whole = only(drafted.generate("abcabcabc", GREEDY, use_tqdm=False))
    tokens: list[int] = []
    for verdict in drafted.stream("abcabcabc", GREEDY):
        tokens += verdict.tokens
        only(drafted.generate("to be", GREEDY, use_tqdm=False))
    assert tuple(tokens) == whole.token_ids


def test_leaving_a_stream_frees_its_place(drafted: LLM) -> None:
    expected = only(drafted.generate("abcabcabc", GREEDY, use_tqdm=False)).token_ids
    for _ in range(6):  # more than there are slots
        stream = drafted.stream("abcabcabc", GREEDY)
        assert len(list(itertools.islice(stream, 3))) == 3
        stream.close()  # type: ignore[attr-defined]
    assert only(drafted.generate("abcabcabc", GREEDY, use_tqdm=False)).token_ids == expected
    assert drafted.stats().num_requests_running == 0


def test_ctrl_c_leaves_it_usable(drafted: LLM) -> None:
    expected = [o.outputs[0].token_ids for o in drafted.generate(PROMPTS, GREEDY, use_tqdm=False)]
    long = SamplingParams(temperature=0, max_tokens=400, ignore_eos=True)
    stream = drafted.stream("abcabcabc", long)
    next(stream)
    timer = threading.Timer(0.05, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        drafted.generate(PROMPTS * 16, long, use_tqdm=False)
    stream.close()  # type: ignore[attr-defined]
    assert [o.outputs[0].token_ids for o in drafted.generate(PROMPTS, GREEDY, use_tqdm=False)] == expected
    assert drafted.stats().num_requests_running == drafted.stats().num_requests_waiting == 0


def test_a_failed_request_is_raised_and_leaves_it_usable(plain: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = only(plain.generate("hello", GREEDY, use_tqdm=False)).token_ids
    runner = plain._target.runner
    with monkeypatch.context() as patch:
        patch.setattr(runner, "forward", lambda works: 1 / 0)
        with pytest.raises(RuntimeError, match="failed"):
            plain.generate(PROMPTS, GREEDY, use_tqdm=False)
    assert only(plain.generate("hello", GREEDY, use_tqdm=False)).token_ids == expected


def test_after_a_run_that_failed_with_a_full_queue_the_next_one_runs(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the failed run left waiting is aborted by the first step of the next."""
    with make(model, max_waiting=1) as llm:
        expected = [o.outputs[0].token_ids for o in llm.generate(PROMPTS, GREEDY, use_tqdm=False)]
        with monkeypatch.context() as patch:
            patch.setattr(llm._target.runner, "forward", lambda works: 1 / 0)
            with pytest.raises(RuntimeError, match="failed"):
                llm.generate(PROMPTS * 4, GREEDY, use_tqdm=False)
        assert [o.outputs[0].token_ids for o in llm.generate(PROMPTS, GREEDY, use_tqdm=False)] == expected
        assert llm.stats().num_requests_running == llm.stats().num_requests_waiting == 0


def test_the_bar_tells_speed_and_accepted_length(drafted: LLM, capsys: pytest.CaptureFixture[str]) -> None:
    drafted.generate(PROMPTS, GREEDY)
    shown = capsys.readouterr()
    assert "tok/s, accepted length" in shown.err
    assert shown.out == ""
    drafted.generate(PROMPTS, GREEDY, use_tqdm=False)
    assert capsys.readouterr().err == ""


def test_after_close_generating_is_an_error(model: str) -> None:
    llm = make(model, speculative_config=SUFFIX)
    llm.close()
    llm.close()
    with pytest.raises(RuntimeError, match="closed"):
        llm.generate("hello", GREEDY, use_tqdm=False)


def test_another_thread_is_refused_and_harms_nothing(plain: LLM) -> None:
    expected = only(plain.generate("abcabcabc", GREEDY, use_tqdm=False)).token_ids
    stream = plain.stream("abcabcabc", GREEDY)
    got = list(next(stream).tokens)
    with ThreadPoolExecutor(1) as pool, pytest.raises(RuntimeError, match="another thread"):
        pool.submit(plain.generate, "xyz", GREEDY, use_tqdm=False).result()
    got += [token for verdict in stream for token in verdict.tokens]
    assert tuple(got) == expected
