"""The command ``tas``: reads the arguments, calls the command, shows what came out.

Nothing here imports torch: a command's own module is imported when the command is called.
"""

import contextlib
import importlib
import io
import itertools
import json
import math
import os
import re
import shlex
import signal
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from types import FrameType
from typing import Any, Protocol

__all__ = ["COMMANDS", "Command", "Outcome", "main"]


@dataclass(frozen=True, kw_only=True)
class Command:
    """One subcommand: ``function(options, command) -> Outcome | None``, both as "module:name".

    The options are a dataclass with fields ``json`` and ``debug``; ``command`` is the command line
    as text. All processes of a job but the first return None.
    """

    summary: str
    options: str
    function: str


COMMANDS = {
    "prune": Command(
        summary="make a network smaller: train, search, distil, export, report",
        options="transformable.cli.options:Prune",
        function="transformable.cli.prune:prune",
    ),
    "train": Command(
        summary="train a network and test it",
        options="transformable.cli.options:Train",
        function="transformable.cli.train:train",
    ),
    "search": Command(
        summary="learn how wide each layer and how deep each stage should be",
        options="transformable.cli.options:Search",
        function="transformable.cli.search:search",
    ),
    "distill": Command(
        summary="train the network of a shape with what the unpruned one has learnt",
        options="transformable.cli.options:Distill",
        function="transformable.cli.distill:distill",
    ),
    "compare": Command(
        summary="which method is best for a network and a budget, all on equal terms",
        options="transformable.cli.options:Compare",
        function="transformable.cli.compare:compare",
    ),
    "sweep": Command(
        summary="accuracy against cost: one method, or more, over several budgets",
        options="transformable.cli.options:Sweep",
        function="transformable.cli.sweep:sweep",
    ),
    "evaluate": Command(
        summary="accuracy of a trained network on the test set",
        options="transformable.cli.query_options:Evaluate",
        function="transformable.cli.evaluate:evaluate",
    ),
    "cost": Command(
        summary="what a network costs, layer by layer, as it is or at a shape",
        options="transformable.cli.query_options:Cost",
        function="transformable.cli.cost:cost",
    ),
    "export": Command(
        summary="write a trained network for use elsewhere: safetensors, ONNX, torch.export",
        options="transformable.cli.query_options:Export",
        function="transformable.cli.export:export",
    ),
    "report": Command(
        summary="explain a run of tas prune, compare or sweep in one HTML page",
        options="transformable.cli.query_options:Report",
        function="transformable.cli.report:report",
    ),
}


class Outcome(Protocol):
    """What a command returns."""

    @property
    def result(self) -> dict[str, Any]:
        """What --json prints."""
        ...

    def show(self) -> Any:
        """What a person sees: something that rich can print."""
        ...


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 if it worked, 2 for bad input, 130 if it was interrupted."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    # until a command has something to save, SIGTERM is what Ctrl-C is
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        return _run(arguments)
    except BrokenPipeError:
        # whoever read our output has seen enough; nothing may be written to it at exit either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError) as error:
        if "--debug" in arguments:
            traceback.print_exc()
        if _first_process():
            print(f"tas: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as interrupt:
        # the other processes leave with 0, or the first one would be killed while it still saves
        if not _first_process():
            return 0
        done = f", {interrupt}" if str(interrupt) else ""
        print(f"tas: interrupted{done}", file=sys.stderr)
        return 130
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(arguments: list[str]) -> int:
    name = arguments[0] if arguments else "--help"
    if name in ("-h", "--help"):
        print(_help())
        return 0
    if name == "--version":
        from .. import __version__

        print(f"tas {__version__}")
        return 0
    if name not in COMMANDS:
        from ..spelling import nearest

        kind = "option" if name.startswith("-") else "command"
        raise ValueError(f"unknown {kind} {name!r}; {nearest(name, list(COMMANDS))}")
    command = COMMANDS[name]
    options = parse(name, _load(command.options), arguments[1:])
    if options is None:
        return 0
    # with --json, stdout holds the object alone, whatever a user's factory prints
    quiet = contextlib.redirect_stdout(sys.stderr) if options.json else contextlib.nullcontext()
    with quiet:
        outcome = _load(command.function)(options, shlex.join(["tas", *arguments]))
    if outcome is not None:
        _print(outcome, as_json=options.json)
    return 0


def parse(name: str, kind: Any, arguments: list[str]) -> Any:
    """The options of a command: defaults, then preset, then config file, then command line.

    None if the arguments asked for help, which is printed.

    >>> from transformable.cli.options import Train
    >>> parse("train", Train, ["--preset", "paper", "--epochs", "3"]).batch_size
    256
    >>> parse("train", Train, ["--epoch", "3"])
    Traceback (most recent call last):
    ValueError: unknown option '--epoch'; did you mean '--epochs'?
    """
    import tyro

    base = _base(kind, arguments)
    message = io.StringIO()
    try:
        with contextlib.redirect_stderr(message):
            options = tyro.cli(kind, prog=f"tas {name}", args=arguments, default=base)
    except SystemExit as stop:
        if stop.code in (0, None):
            return None
        raise ValueError(_one_line(message.getvalue(), kind)) from None
    return _expanded(options, base)


def _base(kind: Any, arguments: list[str]) -> Any:
    """The options before the command line is applied: defaults, preset, config file."""
    from .config_file import read_config

    base, file = kind(), _given(arguments, "config")
    if "preset" not in {field.name for field in fields(kind)}:
        return base if file is None else read_config(file, base)
    # the preset, and the dataset that it depends on, may themselves stand in the config file
    named = base if file is None else read_config(file, base)
    preset = _given(arguments, "preset") or named.preset
    data = _given(arguments, "data") or named.data
    start = _with_preset(base, preset, data)
    return start if file is None else _expanded(read_config(file, start), start)


def _with_preset(base: Any, preset: str, data: str) -> Any:
    """The options with the settings of a preset: in their sections, or one set of them."""
    from ..presets import SEARCHES, STUDENTS, TEACHERS, TRAININGS
    from ..settings import Distilling, Searching, Training
    from .options import Pruning

    if preset not in TRAININGS:
        raise ValueError(f"unknown preset {preset!r}; use one of {', '.join(TRAININGS)}")
    if isinstance(base, Pruning):
        sections: dict[str, Any] = {"train": TEACHERS, "search": SEARCHES, "student": STUDENTS}
        return replace(base, **{name: presets[preset](data) for name, presets in sections.items()})
    parts: Any = ((Searching, SEARCHES), (Distilling, STUDENTS), (Training, TRAININGS))
    for part, presets in parts:
        if isinstance(base, part):
            return replace(base, **vars(presets[preset](data)))
    return base


def _expanded(options: Any, base: Any) -> Any:
    """The options with their short forms written into the sections, where they have these."""
    return options.expanded(base) if hasattr(options, "expanded") else options


def _given(arguments: list[str], name: str) -> str | None:
    """The value of an option on the command line; the last one counts."""
    found = None
    for token, following in itertools.zip_longest(arguments, arguments[1:]):
        (option, equals, value) = token.partition("=")
        if option == f"--{name}":
            found = value if equals else following
    return found


def _one_line(box: str, kind: Any) -> str:
    """What tyro says in a box of many lines, in one."""
    lines = [line.strip("│ ") for line in box.splitlines()]
    # the title is in the border, or, where there is only ASCII, underlined
    body = lines[1:] if lines[0].startswith("╭") else lines[2:]
    text = " ".join(itertools.takewhile(lambda line: not re.match("──|--+$|╰", line), body))
    if found := re.match(r"Unrecognized options: ([^,]+)", text):
        from ..spelling import nearest
        from .options import option_names

        token = found[1]
        if not token.startswith("-"):
            return f"unexpected argument {token!r}"
        known = [name for name in option_names(kind) if name != "run"]
        hint = nearest(token.partition("=")[0].lstrip("-"), known)
        return f"unknown option {token!r}; " + hint.replace(" '", " '--")
    if found := re.match(r"Error parsing (--\S+): invalid literal for int\(\).*: (.*)", text):
        return f"{found[1]} must be a whole number, not {found[2]}"
    if found := re.match(r"Error parsing (--\S+): could not convert string to float: (.*)", text):
        return f"{found[1]} must be a number, not {found[2]}"
    return re.sub(r"^Error parsing \w+: ", "", text)


def _print(outcome: Outcome, *, as_json: bool) -> None:
    if as_json:
        # JSON has no NaN
        finite = {k: v if _finite(v) else None for k, v in outcome.result.items()}
        print(json.dumps(finite), flush=True)
        return
    from rich.console import Console

    # a file has no width of its own
    Console(width=None if sys.stdout.isatty() else 120).print(outcome.show())


def _finite(value: object) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            "usage: tas COMMAND [OPTIONS]",
            "",
            "Make a convolutional network as small as you need.",
            "",
            *lines,
            "",
            "tas COMMAND --help says more; tas --version says which version this is.",
        ]
    )


def _load(path: str) -> Any:
    (module, name) = path.split(":")
    return getattr(importlib.import_module(module), name)


def _first_process() -> bool:
    """With several devices, only the first process speaks."""
    return os.environ.get("LOCAL_RANK", "0") == "0"


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
