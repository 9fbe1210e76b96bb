"""Turn the arguments of a command line into the options of a command."""

import contextlib
import io
import itertools
import re
from dataclasses import fields, replace
from typing import Any

import tyro

from ..presets import MANY, PRESETS
from ..settings import Distilling, Searching, Training
from ..spelling import nearest
from . import options, pruning_options, query_options, reproducing_options
from .config_file import read_config
from .help_texts import set_help_texts
from .options import Search, option_names
from .pruning_options import PruningOptions

__all__ = ["options_of", "parse"]

OTHER_NAMES = {"teacher": "weights", "weights": "teacher"}
"""What is called differently in another command."""


def options_of(command: str) -> Any:
    """The class of the options of a command."""
    name = command.capitalize()
    modules = (options, pruning_options, query_options, reproducing_options)
    return next(getattr(module, name) for module in modules if hasattr(module, name))


def parse(name: str, kind: Any, arguments: list[str]) -> Any:
    """The options of a command: defaults, then preset, then config file, then command line.

    None if the arguments asked for help, which is printed.
    """
    base = _base(kind, arguments)
    if {"-h", "--help"} & {*arguments}:
        set_help_texts(kind)
    message = io.StringIO()
    try:
        with contextlib.redirect_stderr(message):
            options = tyro.cli(kind, prog=f"tas {name}", args=arguments, default=base)
    except SystemExit as stop:
        if stop.code in (0, None):
            return None
        raise ValueError(_one_line(message.getvalue(), kind, arguments)) from None
    _check_data(options)
    return _expanded(options, base)


def _check_data(options: Any) -> None:
    """Say how the name of a file is written as a dataset."""
    data = getattr(options, "data", None) or ""
    if data.endswith(".npz") and ":" not in data and "," not in data:
        raise ValueError(f"unknown dataset {data!r}; use --data npz:{data}")


def _base(kind: Any, arguments: list[str]) -> Any:
    """The options before the command line is applied: defaults, preset, config file."""
    base, file = kind(), _given(arguments, "config")
    named = base if file is None else read_config(file, base)
    if "preset" not in {field.name for field in fields(kind)}:
        return named
    # the preset, and the dataset that it depends on, may themselves be in the config file
    preset = _given(arguments, "preset") or named.preset
    data = _given(arguments, "data") or named.data
    start = _with_preset(base, preset, data)
    return start if file is None else _expanded(read_config(file, start), start)


def _with_preset(base: Any, name: str, data: str) -> Any:
    """The options with the settings of a preset."""
    preset = {str(known): settings for known, settings in PRESETS.items()}.get(name)
    if preset is None:
        raise ValueError(f"unknown preset {name!r}; use one of {', '.join(PRESETS)}")
    images = _training_images(data)
    if isinstance(base, PruningOptions):
        return replace(
            base,
            train=preset.teacher(data, images),
            search=preset.search(data, images),
            student=preset.student(data, images),
        )
    if isinstance(base, Search):
        base = replace(base, pretrain_epochs=preset.pretrain_epochs)
    parts = ((Searching, preset.search), (Distilling, preset.student), (Training, preset.training))
    for part, settings in parts:
        if isinstance(base, part):
            return replace(base, **vars(settings(data, images)))
    return base


def _training_images(data: str) -> int:
    """The number of training images by which a preset chooses epochs and batches."""
    if not data.startswith(("npz:", "folder:")):
        return MANY
    from ..data.catalogue import (
        training_images,
    )  # imports torch, which a user's own data need anyway

    # what cannot be read is refused by the command, in its own words
    with contextlib.suppress(ValueError, OSError):
        return training_images(data)
    return MANY


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


def _one_line(box: str, kind: Any, arguments: list[str]) -> str:
    """The error message that tyro prints in a box of several lines, as one line."""
    lines = [line.strip("│ ") for line in box.splitlines()]
    # the title is in the border, or, where there is only ASCII, underlined
    body = lines[1:] if lines[0].startswith("╭") else lines[2:]
    text = " ".join(itertools.takewhile(lambda line: not re.match("──|--+$|╰", line), body))
    if found := re.match(r"Unrecognized options: ([^,]+)", text):
        token = found[1]
        if not token.startswith("-"):
            return f"unexpected argument {token!r}"
        general = ("config", "json", "debug")  # every command has these: name them last
        known = sorted((n for n in option_names(kind) if n != "run"), key=general.__contains__)
        given = token.partition("=")[0].lstrip("-")
        # tas prune has sections: its --search-epochs, or --search.epochs, is --epochs in tas search
        own = re.sub(rf"^{kind.__name__.lower()}[-.]", "", given)
        same = OTHER_NAMES.get(given, own)
        hint = f"did you mean '{same}'?" if same in known else nearest(given, known)
        return f"unknown option {token!r}; " + hint.replace(" '", " '--")
    if text.rstrip() == "Unrecognized options:":  # what is behind the = of a switch: nothing
        switch = next((token for token in arguments if token.endswith("=")), "an argument")
        return f"{switch!r} has an empty value; leave out the =, or the option"
    whole = (
        r"Error parsing (--\S+): (?:invalid literal for int\(\).*: |no type .*\|INT .*?\[)('.*?')"
    )
    if found := re.match(whole, text):
        return f"{found[1]} must be a whole number, not {found[2]}"
    if found := re.search(
        r"parsing (--\S+): Could not find valid parse for arguments: \[(.*?)\]", text
    ):
        # a long line is broken behind a comma too: each value has quotes around it
        values = re.findall("'(.*?)'", found[2])
        hint = "; separate them by spaces" if any("," in value for value in values) else ""
        return f"{found[1]} must be numbers, not {found[2]}{hint}"
    if found := re.match(r"Error parsing (--\S+): could not convert string to float: (.*)", text):
        return f"{found[1]} must be a number, not {found[2]}"
    choice = r"invalid choice '(.*?)' for argument '(--\S+)'. Expected one of \((.*)\)"
    if found := re.match(choice, text):
        choices = re.findall(r"'([^']*)'", found[3])
        if "None" in choices:  # which stands for no value, in a set without an order
            choices = sorted(set(choices) - {"None"})
        return f"{found[2]} must be one of {', '.join(choices)}, not {found[1]!r}"
    if found := re.match(r"Missing value for argument '(--\S+)'", text):
        return f"{found[1]} needs a value"
    # a section, whose messages begin with the name of a setting; or the whole command
    text = re.sub(r"^Error parsing (train|search|student): ", r"\1.", text)
    return re.sub(r"^Error parsing \w+: ", "", text)
