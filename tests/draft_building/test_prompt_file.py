"""Prompts of a file: three forms, told apart by their content, and a bad line is named by its number."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.harness.tiny import byte_tokenizer
from services.draft_building.prompt_file import read_prompts
from services.prompts import encode_chat


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "prompts"


def texts(path: Path, *, raw: bool = False) -> list[str]:
    """As the model sees them."""
    tokenizer = byte_tokenizer()
    return [tokenizer.decode(prompt.ids(tokenizer)) for prompt in read_prompts(path, raw=raw)]


def chat(*messages: dict[str, str]) -> str:
    return str(encode_chat(messages, byte_tokenizer()).text)


def asked(text: str) -> str:
    return chat({"role": "user", "content": text})


def batch(url: str, **body: object) -> str:
    return json.dumps({"custom_id": "1", "method": "POST", "url": url, "body": {"model": "m", **body}})


def test_plain_lines(path: Path) -> None:
    path.write_text("What is rain?\n\n  {Why}\r\nsaid\u2028so\n")
    assert texts(path) == [asked("What is rain?"), asked("  {Why}"), asked("said\u2028so")]
    assert texts(path, raw=True) == ["What is rain?", "  {Why}", "said\u2028so"]


def test_json_lines_of_either_kind(path: Path) -> None:
    turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    path.write_text(json.dumps({"prompt": "a\nb", "domain": "x"}) + "\n" + json.dumps({"messages": turns}) + "\n")
    assert texts(path) == [asked("a\nb"), chat(*turns)]
    assert texts(path, raw=True) == ["a\nb", chat(*turns)]


def test_a_batch_of_requests(path: Path) -> None:
    parts = [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]
    lines = [
        batch("/v1/chat/completions", messages=parts, max_tokens=5, temperature=0.3),
        batch("/v1/completions", prompt=["one", "two"]),
        batch("/v1/completions", prompt=[104, 105]),
        batch("/v1/completions", prompt="three"),
    ]
    path.write_text("\n".join(lines))
    assert texts(path) == [asked("Hi"), "one", "two", "hi", "three"]


BAD = [
    ('{"prompt": "fine"}\nplain', "line 2 is no JSON"),
    ("plain\n" + '{"prompt": "fine"}', "line 2 is JSON, but the first line is none"),
    ('{"prompt": "fine"}\n\n{"prompt": " "}', "line 3: .* is no prompt; it must look like"),
    ('{"prompt": 3}', "line 1: .* is no prompt"),
    ('{"messages": [{"role": "user"}]}', "line 1: messages.0.content is required"),
    ('{"messages": []}\n', "line 1: "),
    (batch("/v1/embeddings", input="x"), "line 1: url is '/v1/embeddings'; it must be"),
    (batch("/v1/completions"), "line 1: prompt is required"),
    (batch("/v1/completions", prompt="x", temprature=1), 'line 1: unknown field "temprature"'),
    ("\n \n", "has no prompts"),
]


@pytest.mark.parametrize(("content", "reason"), BAD, ids=[reason[:24] for _, reason in BAD])
def test_a_bad_line_is_named(path: Path, content: str, reason: str) -> None:
    path.write_text(content)
    with pytest.raises(ValueError, match=reason):
        texts(path)


def test_what_the_chat_template_refuses_is_named_too(path: Path) -> None:
    path.write_text("Hi\n")
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = None
    (prompt,) = read_prompts(path, raw=False)
    with pytest.raises(ValueError, match="line 1: this model has no chat template"):
        prompt.ids(tokenizer)
