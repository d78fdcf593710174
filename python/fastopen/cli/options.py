"""Make command-line options from factors (settings that can vary), and apply options to experiments."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Annotated, Any, Final

from pydantic import ValidationError
from typer import Option

from fastopen.common.errors import InputError
from fastopen.common.pydantic_errors import input_error
from fastopen.common.units import UnitError
from fastopen.contract.client_kinds import COMMAND
from fastopen.experiments import (
    COMMAND_LINE,
    KINDS,
    AskedEngine,
    Experiment,
    Factor,
    Setup,
    read_settings,
    with_clients,
)
from fastopen.experiments.factors import ENGINE
from fastopen.experiments.quantities import WORDS, choice

# The headings of factors' options in help, keyed by the part of a job that the factors change.
OPTION_PANELS: Final = {
    "network": "Network",
    "client": "Client",
    "origins": "HTTP",
    "tls": "TLS",
    "tcp": "TCP",
}
ALIASES: Final = {"transport": ["--transport", "--arms"]}
Written = dict[str, object]


def with_factors(
    factors: Iterable[Factor], defaults: Mapping[str, str] | None = None, *, lists: bool = True
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds an option to a command for each factor (setting), such as `--rtt`.

    The command receives the values of these options as its argument `written`, which maps names of factors to
    values. `defaults` has values for factors that the user does not set. If `lists` is False, the command
    takes single values, and the help separates example values by `|` instead of commas."""
    own_defaults = dict(defaults or {})
    made = {factor.name: _parameter(factor, own_defaults.get(factor.name), lists) for factor in factors}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def decorated(**options: object) -> None:
            given = {name: options.pop(name) for name in made}
            written = {name: value for name, value in given.items() if value not in (None, [], False)}
            command(**options, written={**own_defaults, **written})

        first, *own = inspect.signature(command).parameters.values()
        others = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own if one.name != "written"]
        shown = inspect.Signature([first, *made.values(), *others])
        decorated.__signature__ = shown  # type: ignore[attr-defined]
        return decorated

    return decorate


def _parameter(factor: Factor, default: str | None, lists: bool) -> inspect.Parameter:
    """Return a factor's option, for Typer. `default`, if given, replaces the factor's default in the help."""
    usual = default or (not lists and factor.default) or factor.default_meaning or factor.usual
    one_value = not lists and factor.quantity is not WORDS
    option: Any = Option(
        factor.flag,
        *ALIASES.get(factor.name, ()),
        help=factor.meaning + (f" (default: {usual})" if usual and not factor.switch else ""),
        metavar=(factor.example.replace(",", "|") if one_value else factor.example) or None,
        rich_help_panel=OPTION_PANELS.get(factor.part),
    )
    kind: Any = bool if factor.switch else list[str] | None if factor.repeatable else str | None
    return inspect.Parameter(
        factor.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=False if factor.switch else None,
        annotation=Annotated[kind, option],
    )


# The names of clients that need no command line in addition to the name.
NAMED_CLIENTS: Final = tuple(kind for kind in KINDS if kind != COMMAND.label)


def engines_asked(text: str) -> list[AskedEngine]:
    """Parse a list of engines, such as `host,virtual`. Raises InputError for an unknown engine."""
    return read_settings({ENGINE.name: text}, COMMAND_LINE).engines()


def other_clients(experiment: Experiment, text: str) -> list[Setup]:
    """Return the experiment's setups (settings of client and servers) with the clients that `text` lists,
    such as `loader,chromium`. Raises InputError if a client is unknown or does not suit a setup."""
    try:
        return with_clients(experiment.setups, list(map(choice(*NAMED_CLIENTS).read, text.split(","))))
    except ValidationError as error:
        message = COMMAND_LINE.text(input_error(error, "").message)
        raise InputError(message, "--client", "choose another client") from None
    except UnitError as error:
        raise InputError(str(error), "--client") from None
