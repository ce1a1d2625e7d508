"""The application that all commands belong to, the options that they share, and how errors are shown."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

try:
    import typer
    from rich.text import Text
    from typer.core import TyperCommand, TyperGroup
except ImportError as error:  # pragma: no cover
    sys.exit(
        f"the command line needs rich and typer ({error.name} is missing): "
        "in your clone, pip install -e '.[cli]'"
    )

from unknot.cli.screen import GONE, Unwritten, leave_quietly, side, streams
from unknot.core.errors import UnknotError

STOPPED = 130
"""What a command exits with that Ctrl-C has ended, or SIGTERM while it kept a run."""
ORDER = (
    "demo",
    "new",
    "check",
    "run",
    "resume",
    "runs",
    "show",
    "watch",
    "forget",
    "admit",
    "pause",
    "stop",
    "compare",
    "audit",
    "list",
    "data",
    "tree",
    "cluster",
    "game",
    "reproduce",
)
"""Of the commands, in the help."""
Misused: type[Exception] = typer.BadParameter.__mro__[1]
"""That a command or an option is not there, or not so: what typer raises."""


class Command(TyperCommand):
    """A command whose help reads as that of others: FILE for what must be given, and nothing after a flag."""

    def get_params(self, ctx: Any) -> Any:
        return _as_others_write(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]


def _as_others_write(params: Any) -> Any:
    for param in params:
        if param.metavar is None and param.param_type_name == "argument":
            param.metavar = param.name.upper()
        elif param.metavar is None and getattr(param, "is_flag", False):
            param.metavar = ""
    return params


class Commands(TyperGroup):
    """All commands; what typer finds wrong is told as our own errors are, in a line that says what to do."""

    def get_params(self, ctx: Any) -> Any:
        return _as_others_write(super().get_params(ctx))

    def list_commands(self, ctx: Any) -> list[str]:
        """In the order in which a person meets them."""
        return sorted(super().list_commands(ctx), key=ORDER.index)

    def main(self, args: Sequence[str] | None = None, *more: Any, **options: Any) -> Any:
        with streams():
            return self._main(args, *more, **options)

    def _main(self, args: Sequence[str] | None, *more: Any, **options: Any) -> Any:
        asked = sys.argv[1:] if args is None else args
        if not options.setdefault("standalone_mode", True):
            return super().main(args, *more, **options)
        options["standalone_mode"] = False
        try:
            found = super().main(args if asked else ["--help"], *more, **options) or 0
            sys.stdout.flush()
            sys.exit(found)
        except Misused as error:
            sys.exit(_misused(error))
        except Unwritten as error:
            _tell_error(
                f"standard output cannot be written ({error}): what was to be shown is lost; requests and "
                "files of the command are not"
            )
            sys.exit(2)

    def invoke(self, ctx: Any) -> Any:
        try:
            found = super().invoke(ctx)
            sys.stdout.flush()
            return found
        except BrokenPipeError:
            leave_quietly()
            raise typer.Exit(GONE) from None
        except KeyboardInterrupt:  # before a command has anything to keep
            _tell_stopped("nothing was done yet")
            raise typer.Exit(STOPPED) from None


def _misused(error: Any) -> int:
    where = error.ctx.command_path if error.ctx is not None else "unknot"
    text = _NO_NUMBER.sub(_no_number, error.format_message().rstrip(". "))
    _tell_error(f"{text}{'' if text.endswith('?') else '.'} See {where} --help")
    return int(error.exit_code)


_NO_NUMBER = re.compile(r"Invalid value for '([^']+)': .*\bvalid (int|float|number).*", re.DOTALL)
"""What typer says of a text where a number should be; its words differ from version to version."""


def _no_number(found: re.Match[str]) -> str:
    return f"{found[1]} must be " + ("a whole number" if found[2] == "int" else "a number, such as 0.5")


Shown = TypeVar("Shown", bound=Callable[..., Any])


class Application(typer.Typer):
    """Makes every command a `Command`."""

    def command(
        self, name: str | None = None, *, cls: type[TyperCommand] | None = Command, **options: Any
    ) -> Callable[[Shown], Shown]:
        return super().command(name, cls=cls, **options)


app = Application(
    cls=Commands,
    name="unknot",
    help="Federated learning that can forget, and can prove it.",
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        from unknot import __version__

        sys.stdout.write(f"unknot {__version__}\n")
        raise typer.Exit


@app.callback()
def unknot(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    pass


Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting: train.lr=0.1. May be repeated."),
]
Seed = Annotated[int | None, typer.Option(help="The seed of every draw.")]
Device = Annotated[str | None, typer.Option(help="Where to train: cpu, cuda, cuda:1, ...")]
Engine = Annotated[
    str | None,
    typer.Option(
        help="stacked (all models at once, fast), loop (one after the other, to check it by) or ray (many "
        "machines)."
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT", help="Train on the Ray cluster there (engine ray); auto: this machine's."
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print the whole record of the run as JSON, and nothing else.")
]
Plot = Annotated[
    Path | None,
    typer.Option(metavar="OUT.png|.svg|.pdf", help="Also draw it: accuracy, and who was at work, over time."),
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Leave config.toml, record.json, model.safetensors, report.html there; unknot run "
        "also keeps the run itself, for unknot resume.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Write over a run that --out finds in its folder.")]
Picture = Annotated[
    Path | None, typer.Option(metavar="OUT.png|.svg|.pdf", help="Also draw it into this file.")
]


Quiet = Annotated[
    bool,
    typer.Option("--quiet", help="Say nothing but what is wrong; with --json, print that and nothing else."),
]

PENDING, NOT_WELL, NOT_TRACKED = 3, 4, 5
PLAIN = "Exit status: 0 all well; 2 an error; 130 stopped by Ctrl-C."
"""Of a command of which there is no more to say."""
STATUSES = (
    "Exit status: 0 all well; 2 an error; 3 a request is still pending, because the run ended before it "
    "came, or one was refused; 4 most updates were set aside (of the run, since the last request, or in a "
    "cluster at its end), or it diverged, or no clients were left: the model is not what it seems; 5 the run "
    "is well, but --csv, --tensorboard, --mlflow or --wandb could not write it down to the end; 130 stopped "
    "by Ctrl-C, or, of a run that is kept, by SIGTERM."
)


def changes(
    set_: list[str] | None,
    seed: int | None = None,
    device: str | None = None,
    engine: str | None = None,
    ray_address: str | None = None,
) -> list[str]:
    """What the options say of a file's settings."""
    if engine is None and ray_address is not None:
        engine = "ray"
    named = {"seed": seed, "engine.device": device, "engine.name": engine, "engine.address": ray_address}
    return [
        *(set_ or []),
        *(f"{key}={json.dumps(value)}" for key, value in named.items() if value is not None),
    ]


@contextmanager
def errors_for_people(kept: Callable[[], str] = lambda: "nothing was kept") -> Iterator[None]:
    """Errors that unknot raises on purpose end the command with their message, not a traceback.

    So do files that cannot be read or written, and Ctrl-C: then `kept` says what is there, and how to go on.
    """
    try:
        yield
    except UnknotError as error:
        _tell_error(str(error))
        raise typer.Exit(2) from None
    except OSError as error:
        if error.filename is None or isinstance(error, BrokenPipeError):
            raise
        _tell_error(f"{error.filename}: {error.strerror}")
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        _tell_stopped(kept())
        raise typer.Exit(STOPPED) from None


def _tell_stopped(kept: str) -> None:
    side().print(Text.assemble(("stopped: ", "bold red"), kept))


def _tell_error(text: str) -> None:
    side().print(Text.assemble(("error: ", "bold red"), text))
