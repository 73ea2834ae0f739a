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
    """The options and arguments of a command, or of a sub-command with both words as its name."""

    name: str
    summary: str
    options: tuple[Option, ...]
    words: tuple[str, ...]
    """Its sub-commands, or the choices of its first argument."""
    has_parts: bool


def describe_command(
    name: str, summary: str, parts: Sequence[str], parser: argparse.ArgumentParser
) -> CommandLine:
    """The options and choices of a parser."""
    options: dict[str, Option] = {}
    words = tuple(parts)
    for action in parser._actions:  # noqa: SLF001 - argparse offers no other list
        choices = tuple(str(choice) for choice in action.choices or ())
        for flag in action.option_strings:
            text = (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")
            if flag.startswith("--"):
                options[flag] = Option(flag, text, action.nargs != 0, choices)
        if not action.option_strings and choices:
            words = choices
    return CommandLine(name, summary, tuple(options.values()), words, bool(parts))


def bash_script(commands: Sequence[CommandLine]) -> Iterator[str]:
    """The script for bash: `source <(wattpack admin completion bash)`."""
    yield "# bash completion for wattpack"
    yield "_wattpack() {"
    yield '    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" words=""'
    yield '    local command="${COMP_WORDS[1]}"'
    yield f'    case "$command" in {_groups(commands)})'
    yield '        if [ "$COMP_CWORD" -gt 2 ]; then command="$command ${COMP_WORDS[2]}"; fi ;;'
    yield "    esac"
    yield f"    if [ \"$COMP_CWORD\" -eq 1 ]; then words='{' '.join(_names(commands))}'"
    yield '    else case "$command" in'
    for command in commands:
        yield f'        {_pattern(command)}) case "$before" in'
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


def _names(commands: Sequence[CommandLine]) -> list[str]:
    return [each.name for each in commands if " " not in each.name]


def _groups(commands: Sequence[CommandLine]) -> str:
    return "|".join(each.name for each in commands if each.has_parts)


def _pattern(command: CommandLine) -> str:
    """The words of a command in a shell's `case`; after those of a group, an option may follow."""
    return f'"{command.name}"|"{command.name} -"*' if command.has_parts else f'"{command.name}"'


def zsh_script(commands: Sequence[CommandLine]) -> Iterator[str]:
    """The script for zsh: `_wattpack` in `fpath`, or `source <(wattpack admin completion zsh)`."""
    yield "#compdef wattpack"
    yield "_wattpack() {"
    yield "    local -a commands"
    yield "    commands=("
    yield from (
        f"        {shlex.quote(f'{each.name}:{each.summary}')}" for each in commands if " " not in each.name
    )
    yield "    )"
    yield "    if (( CURRENT == 2 )); then _describe command commands; return; fi"
    yield "    shift words; (( CURRENT-- ))"
    yield '    local command="$words[1]"'
    yield f'    case "$command" in {_groups(commands)})'
    yield '        if (( CURRENT > 2 )); then command="$command $words[2]"; fi'
    yield '        if [[ "$words[2]" != -* ]] && (( CURRENT > 2 )); then shift words; (( CURRENT-- )); fi ;;'
    yield "    esac"
    yield '    case "$command" in'
    for command in commands:
        specs = [_zsh_option(option) for option in command.options]
        specs += [f":argument:({' '.join(command.words)})"] if command.words else ["*:file:_files"]
        yield f"        {_pattern(command)}) _arguments \\"
        yield " \\\n".join(f"            {shlex.quote(spec)}" for spec in specs) + " ;;"
    yield "    esac"
    yield "}"
    yield "compdef _wattpack wattpack"


def _zsh_option(option: Option) -> str:
    text = option.help.replace("\n", " ").replace("[", "(").replace("]", ")")
    value = f":value:({' '.join(option.choices)})" if option.choices else ":value:_files"
    return f"{option.flag}[{text}]{value if option.has_value else ''}"


def fish_script(commands: Sequence[CommandLine]) -> Iterator[str]:
    """The script for fish: `wattpack admin completion fish | source`."""
    yield "# fish completion for wattpack"
    yield "complete -c wattpack -e"
    yield "complete -c wattpack -n __fish_use_subcommand -f"
    for command in commands:
        group, _, part = command.name.partition(" ")
        condition = f"__fish_seen_subcommand_from {group}"
        if part:
            condition += f"; and __fish_seen_subcommand_from {part}"
        else:
            yield f"complete -c wattpack -n __fish_use_subcommand -a {group} -d {_fish(command.summary)}"
        if command.has_parts:
            condition += f"; and not __fish_seen_subcommand_from {' '.join(command.words)}"
        of_command = f"-n '{condition}'"
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
