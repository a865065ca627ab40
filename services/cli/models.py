"""paradraft models: what can be served without a download, and where it lies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from drafters.shipped import shipped_weights
from services.cli.failures import one_line_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalModel:
    """A model on this machine. `state` says in a word whether it can be served at once. drafters: the methods that
    weights come with paradraft for."""

    name: str
    state: str
    path: Path
    bytes: int
    drafters: tuple[str, ...] = ()


@one_line_errors
def models() -> None:
    """List the models on this machine.

    The built-in one, and those downloaded from the hub.
    """
    console = Console(highlight=False)
    for each in (_builtin(), *_from_hub()):
        console.print(_entry(each), soft_wrap=True)
    hint = "any directory with a transformers checkpoint can be served too: paradraft serve PATH"
    console.print(f"\n{hint}", style="dim", soft_wrap=True)


def _entry(model: LocalModel) -> Text:
    facts = [model.state]
    if model.bytes:
        facts.append(f"{model.bytes / 2**20:,.0f} MiB")
    if model.drafters:
        facts.append(f"drafters {', '.join(model.drafters)}")
    return Text.assemble((model.name, "bold"), "  ", ", ".join(facts), (f"\n  {model.path}", "dim"))


def _builtin() -> LocalModel:
    from modeling.builtin import BUILTIN, converted_dir  # torch

    path, drafters = converted_dir(), tuple(shipped_weights(BUILTIN))
    if not (path / "config.json").exists():
        state = "built in, converted at first use"
        return LocalModel(name=BUILTIN, state=state, path=path, bytes=0, drafters=drafters)
    size = sum(file.stat().st_size for file in path.iterdir())
    return LocalModel(name=BUILTIN, state="ready", path=path, bytes=size, drafters=drafters)


def _from_hub() -> Iterator[LocalModel]:
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        cache = scan_cache_dir()
    except CacheNotFound:
        return
    for repo in sorted(cache.repos, key=lambda each: each.repo_id):
        if repo.repo_type == "model" and any(f.file_name == "config.json" for r in repo.revisions for f in r.files):
            yield LocalModel(name=repo.repo_id, state="downloaded", path=repo.repo_path, bytes=repo.size_on_disk)
