"""one_line_errors: what a user did wrong is said in one line, with an exit code; only a bug shows a traceback."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.text import Text

from services.strict_model import sentences

FAILED, BAD_USAGE, INTERRUPTED = 1, 2, 130

P = ParamSpec("P")
T = TypeVar("T")


def one_line_errors(command: Callable[P, T]) -> Callable[P, T]:
    """Exit code 2 for a bad value, 1 for what failed without the user's doing, 130 for Ctrl-C."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return command(*args, **kwargs)
        except typer.Exit:  # is a RuntimeError
            raise
        except ValidationError as error:
            raise fail(sentences(error), BAD_USAGE) from error
        except ValueError as error:
            raise fail(error, BAD_USAGE) from error
        except (OSError, RuntimeError, FloatingPointError) as error:
            raise fail(error, FAILED) from error
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None

    return run


def fail(error: object, code: int) -> typer.Exit:
    """Prints the reason on standard error; the caller raises what it returns."""
    line = " ".join(str(error).split())
    Console(stderr=True).print(Text.assemble(("error: ", "bold red"), line), soft_wrap=True)
    return typer.Exit(code)
