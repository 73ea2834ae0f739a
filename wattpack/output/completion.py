"""Completion scripts for shells, generated from the parsers of all commands."""

import argparse
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a command."""

    flag: str
    help: str
    has_value: bool
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The options and arguments of a command."""

    name: str
    summary: str
    options: tuple[Option, ...]
    words: tuple[str, ...]
    """Choices of its first argument."""


def describe_command(name: str, summary: str, parser: argparse.ArgumentParser) -> CommandLine:
    """The options and choices of a parser; those of its subcommands are merged."""
    options: dict[str, Option] = {}
    words: tuple[str, ...] = ()
    parsers = [parser]
    for each in parsers:
        for action in each._actions:  # noqa: SLF001 - argparse offers no other list
            if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - the same
                words = tuple(action.choices)
                parsers += action.choices.values()
                continue
            choices = tuple(str(choice) for choice in action.choices or ())
            for flag in action.option_strings:
                text = (action.help or "").replace("%(default)s", str(action.default))
                if flag.startswith("--"):
                    options[flag] = Option(flag, text, action.nargs != 0, choices)
            if not action.option_strings and choices and each is parser:
                words = choices
    return CommandLine(name, summary, tuple(options.values()), words)


def bash_script(commands: Sequence[CommandLine]) -> Iterator[str]:
    """The script for bash: `source <(wattpack completion bash)`."""
    yield "# bash completion for wattpack"
    yield "_wattpack() {"
    yield '    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" words=""'
    yield '    if [ "$COMP_CWORD" -eq 1 ]; then words=\'' + " ".join(each.name for each in commands) + "'"
    yield '    else case "${COMP_WORDS[1]}" in'
    for command in commands:
        yield f'        {command.name}) case "$before" in'
        for option in command.options:
            if option.choices:
                yield f"            {option.flag}) words='{' '.join(option.choices)}' ;;"
            elif option.has_value:
                yield f'            {option.flag}) COMPREPLY=($(compgen -f -- "$word")); return ;;'
        shown = " ".join((*command.words, *(option.flag for option in command.options)))
        yield f"            *) words='{shown}' ;;"
        yield "        esac ;;"
    yield "    esac; fi"
    yield '    COMPREPLY=($(compgen -W "$words" -- "$word"))'
    yield "}"
    yield "complete -o default -F _wattpack wattpack"


def zsh_script(commands: Sequence[CommandLine]) -> Iterator[str]:
    """The script for zsh: `_wattpack` in a folder of `fpath`, or `source <(wattpack completion zsh)`."""
    yield "#compdef wattpack"
    yield "_wattpack() {"
    yield "    local -a commands"
    yield "    commands=("
    yield from (f"        {shlex.quote(_zsh(f'{each.name}:{each.summary}'))}" for each in commands)
    yield "    )"
    yield "    if (( CURRENT == 2 )); then _describe command commands; return; fi"
    yield '    case "$words[2]" in'
    for command in commands:
        specs = [_zsh_option(option) for option in command.options]
        specs += [f":argument:({' '.join(command.words)})"] if command.words else ["*:file:_files"]
        yield f"        {command.name}) shift words; (( CURRENT-- )); _arguments \\"
        yield " \\\n".join(f"            {shlex.quote(spec)}" for spec in specs) + " ;;"
    yield "    esac"
    yield "}"
    yield "compdef _wattpack wattpack"


def _zsh_option(option: Option) -> str:
    text = _zsh(option.help).replace("[", "(").replace("]", ")")
    value = f":value:({' '.join(option.choices)})" if option.choices else ":value:_files"
    return f"{option.flag}[{text}]{value if option.has_value else ''}"


def _zsh(text: str) -> str:
    name, colon, rest = text.partition(":")
    return f"{name}{colon}{rest}".replace("\n", " ") if colon else text


def fish_script(commands: Sequence[CommandLine]) -> Iterator[str]:
    """The script for fish: `wattpack completion fish | source`."""
    yield "# fish completion for wattpack"
    yield "complete -c wattpack -e"
    yield "complete -c wattpack -n __fish_use_subcommand -f"
    for command in commands:
        yield f"complete -c wattpack -n __fish_use_subcommand -a {command.name} -d {_fish(command.summary)}"
        of_command = f"-n '__fish_seen_subcommand_from {command.name}'"
        if command.words:
            yield f"complete -c wattpack {of_command} -f -a {_fish(' '.join(command.words))}"
        for option in command.options:
            value = f" -x -a {_fish(' '.join(option.choices))}" if option.choices else " -r"
            flag = option.flag.removeprefix("--")
            yield (
                f"complete -c wattpack {of_command} -l {flag} -d {_fish(option.help)}"
                f"{value if option.has_value else ''}"
            )


def _fish(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


SCRIPTS = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}
