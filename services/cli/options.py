"""with_options: command-line options made from the schemas' own fields, so that none is missing and no type drifts."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Any, Literal, Optional, TypeVar, Union, get_args, get_origin, get_type_hints

import typer

from protos.sampling_params import SamplingParams
from services.cli.help_texts import APP_HELP, ENGINE_HELP, METAVARS, SAMPLING_HELP
from services.cli.values import parse_mapping, parse_speculation
from services.config import AppArgs, EngineArgs

T = TypeVar("T")

ModelArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="MODEL",
        help="smollm2-135m (built in, the default), a local directory, or a name on the hub.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One option. The value is None unless the user gives it; `default` is what the help says happens then."""

    name: str
    kind: Any
    help: str
    panel: str
    default: str | None = None

    def parameter(self) -> inspect.Parameter:
        """The parameter that typer turns into the option."""
        option = typer.Option(
            "--" + self.name.replace("_", "-"),
            help=self.help + (f" [dim]\\[default: {self.default}][/]" if self.default else ""),
            rich_help_panel=self.panel,
            metavar="JSON" if self.kind is dict else METAVARS.get(self.name),
            parser=_parser(self),
            show_default=False,
        )
        annotation: object = Annotated[Optional[self.kind], option]  # noqa: UP045  a value, not a type, to mypy
        return inspect.Parameter(self.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def engine_flags() -> list[Flag]:
    """Every key of EngineArgs but the model, which is the argument."""
    return [_schema_flag(name, EngineArgs, text, "Engine") for name, text in ENGINE_HELP.items()]


def app_flags() -> list[Flag]:
    """Every key of the served application."""
    return [*(_schema_flag(name, AppArgs, text, "Server") for name, text in APP_HELP.items()), *engine_flags()]


def sampling_flags(defaults: Mapping[str, object]) -> list[Flag]:
    """The keys of SamplingParams that suit one answer; `defaults` are the command's own."""
    hints = get_type_hints(SamplingParams)
    given = {field.name: field.default for field in fields(SamplingParams) if field.default is not MISSING}
    return [
        Flag(
            name=name,
            kind=_kind(hints[name]),
            help=text,
            panel="Sampling",
            default=_shown(defaults.get(name, given.get(name))),
        )
        for name, text in SAMPLING_HELP.items()
    ]


def with_options(flags: Iterable[Flag]) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Gives a command that takes `**given` one option for each flag."""

    def give(command: Callable[..., T]) -> Callable[..., T]:
        own = inspect.signature(command, eval_str=True)
        named = [each for each in own.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        signature = own.replace(parameters=[*named, *(flag.parameter() for flag in flags)])
        command.__signature__ = signature  # type: ignore[attr-defined]
        return command

    return give


def _schema_flag(name: str, schema: type[EngineArgs], text: str, panel: str) -> Flag:
    field = schema.model_fields[name]
    return Flag(name=name, kind=_kind(field.annotation), help=text, panel=panel, default=_shown(field.default))


def _kind(annotation: Any) -> Any:
    """What typer can parse: a number, a string, choices, a list of strings; a mapping comes as JSON."""
    if get_origin(annotation) in {Union, types.UnionType}:
        (annotation,) = (each for each in get_args(annotation) if each is not type(None))
    if annotation in {int, float, str, bool} or get_origin(annotation) is Literal:
        return annotation
    return list[str] if get_origin(annotation) is tuple else dict


def _parser(flag: Flag) -> Callable[[str], str | Mapping[str, Any]] | None:
    if flag.kind is not dict:
        return None
    return parse_speculation if flag.name == "speculative_config" else parse_mapping


def _shown(default: object) -> str | None:
    return str(default) if isinstance(default, int | float | str) and not isinstance(default, bool) else None
