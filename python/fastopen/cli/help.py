"""Format the help of commands.

The module of a command with many options defines FIRST_OPTIONS (the most important ones) and EXAMPLES.
`--help` then shows only these. `--help TOPIC` shows the options of one topic, and `--help all` shows all."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import typer
from typer.core import TyperArgument, TyperCommand, TyperOption

from fastopen.common.errors import InputError, any_of
from fastopen.common.phrases import listed

HELP: Final = "--help"
ALL: Final = "all"
ASKED: Final = "fastopen.help_topic"
"""The key in a context's `meta` for the requested help topic, which is empty for --help without a topic. The
key is missing without --help, and for commands without topics, which have no FIRST_OPTIONS."""

TOPICS: Final[Mapping[str, Sequence[str]]] = {
    "Network": ("combine", "network"),
    "Client": (),
    "HTTP": ("http", "http2_hosts", "http3_hosts", "origins_keep_alive", "think_scale", "one_address"),
    "TLS": (),
    "TCP": ("transport",),
    "Server": (
        *("server", "server_hosts", "server_listen", "upstream_tfo", "upstream_rtt", "tfo_queue", "bodies"),
        "single_threaded",
    ),
    "Pages": ("where", "sample", "library", "lenient", "max_unpacked", "as_imported"),
    "Repeats": ("aa", "repeats", "seed", "vary", "quick", "until_ci", "max_repeats", "engine", "kernel"),
    "Output": (
        *("json", "output", "label", "no_keep", "keep_going", "pcap", "tcp_trace", "report", "plot", "quiet"),
    ),
    "Cluster": ("jobs", "shard", "store", "workers"),
}
"""Maps help topics to names of options. Factors' options not listed here get a topic from OPTION_PANELS."""

PLACEHOLDERS: Final = {
    "str": "TEXT",
    "int": "N",
    "int range": "N",
    "float": "N",
    "float range": "N",
    "path": "PATH",
    "file": "FILE",
    "directory": "DIR",
}
"""The placeholders that help shows for values, keyed by Click's name of the value's type, such as `int`."""

# The class of Click's errors for a command line that cannot be parsed. Typer raises but does not export it.
UsageError: Final[Any] = typer.BadParameter.__mro__[1]


class TopicCommand(TyperCommand):
    """A command that does not accept an option twice. If it has `first_options`, its `--help` shows only
    these, and `--help TOPIC` shows the options of a topic."""

    first_options: Sequence[str] = ()

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        for one in self.params:
            _use_own_notation(one)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002  # the signature is typer's
        """Return the words of the usage line after the command, such as `[OPTIONS] RUN [INPUT...]`."""
        arguments: list[Any] = [one for one in self.params if one.param_type_name == "argument"]
        return ["[OPTIONS]", *(one.metavar if one.required else f"[{one.metavar}]" for one in arguments)]

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Parse arguments as TyperCommand does. Raises InputError for help on an unknown topic, or for an
        option that has one hyphen instead of two, is given twice (Click itself uses the last), is given with
        its opposite, or has an empty value."""
        own = args[: args.index("--")] if "--" in args else args
        own = [HELP if word == "-h" else word for word in own]
        if self.first_options and HELP in own:
            at = own.index(HELP)
            topic = next((word.lower() for word in own[at + 1 :][:1] if not word.startswith("-")), "")
            topics = [*(name.lower() for name in TOPICS), ALL]
            if topic and topic not in topics:
                raise InputError(f"unknown topic {topic!r}", HELP, f"use {any_of(topics)}")
            ctx.meta[ASKED] = topic
            args = [HELP]
        known = {name for one in self.params for name in one.opts}
        for word in own if ctx.allow_interspersed_args else ():
            if f"-{word.partition('=')[0]}" in known:  # Click would read -rtt as -r tt
                raise InputError("needs two hyphens", word, f"write -{word}")
        try:
            parser: Any = self.make_parser(ctx)
            values, _, params = parser.parse_args([*args])
            for one in params:
                remedy = f"write one {one.opts[0]} {placeholder(one, ctx)}"
                if params.count(one) > 1 and not (one.multiple or one.is_flag):
                    raise InputError("is given twice", one.opts[0], remedy)
                if one.secondary_opts and {*args} >= {one.opts[0], one.secondary_opts[0]}:
                    opposite = one.secondary_opts[0]
                    raise InputError(f"cannot be combined with {opposite}", one.opts[0], "drop one of them")
                value = values.get(one.name)
                words = value if isinstance(value, list | tuple) else [value]
                if one.param_type_name == "option":
                    if "" in words and value != one.default:
                        raise InputError("is empty", one.opts[0], remedy.replace(" one ", " "))
                # The text of a label may be empty, and so may an argument of a command to run.
                elif "" in (words if ctx.allow_interspersed_args else words[:1]) and one.name != "text":
                    raise InputError("is empty", one.metavar, "check the quotes and variables of the command")
            return super().parse_args(ctx, args)
        except UsageError as error:
            error.ctx = error.ctx or ctx  # Click does not set it if an option lacks its value
            raise

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the command's parameters. For help on a topic, such as `--help tls`, return only the topic's
        options. For `--help`, return only the most important options (`first_options`)."""
        topic = ctx.meta.get(ASKED)
        params: list[Any] = super().get_params(ctx)
        if topic is None or topic == ALL:
            return params
        shown = [
            one
            for one in params
            if ((_panel(one) or "").lower() == topic if topic else one.name in self.first_options)
        ]
        return [*shown, *(one for one in params if one.name == "help")]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {}
        short = ctx.meta.get(ASKED) == ""
        for param in self.get_params(ctx):
            if (record := param.get_help_record(ctx)) is not None:
                default = "Arguments" if param.param_type_name == "argument" else "Options"
                panels.setdefault(default if short else _panel(param) or default, []).append(record)
        for heading, records in panels.items():
            with formatter.section(heading):
                formatter.write_dl(records)


def arrange(command: Any, first_options: Sequence[str], examples: Mapping[str, str]) -> None:
    """Make a command's `--help` show only `first_options` and `examples`, and `--help all` show all options
    by topic. `examples` maps command lines to explanations. Do nothing if `first_options` is empty."""
    if not first_options:
        return
    command.first_options = first_options
    for heading, names in TOPICS.items():
        for param in command.params:
            if param.name in names:
                param.rich_help_panel = heading
    topics = listed([*(name.lower() for name in TOPICS), ALL]).replace(" and ", " or ")
    shown = "\n".join(f"  {line}\n      {meaning}" for line, meaning in examples.items())
    command.epilog = f"\b\nExamples:\n{shown}\n\nMore options: {HELP} with {topics}."


def placeholder(param: Any, ctx: Any) -> str | None:
    """Return the placeholder for a parameter's value in help, such as `N`; None for arguments and flags."""
    if param.param_type_name == "argument" or getattr(param, "is_flag", False):
        return None
    shown = param.metavar or param.display_type(ctx).strip("<>")
    return str(PLACEHOLDERS.get(shown, shown))


# Typer has no setting for the words that help shows for values.
TyperOption.display_type_rich = placeholder  # type: ignore[assignment,method-assign]
TyperArgument.display_type_rich = placeholder  # type: ignore[assignment,method-assign]


def _use_own_notation(param: Any) -> None:
    """Name an argument in capitals, and append a default to the parameter's help text: `(default: 5)`."""
    if param.param_type_name == "argument":
        param.metavar = param.metavar or param.name.upper()
    usual = param.opts[0].lstrip("-") if getattr(param, "secondary_opts", ()) else param.default
    if param.show_default is True and param.default not in (None, "") and param.default is not False:
        param.help += f" (default: {f'{usual:g}' if isinstance(usual, float) else usual})"
    param.show_default = param.show_envvar = False


def _panel(param: Any) -> str | None:
    return getattr(param, "rich_help_panel", None)
