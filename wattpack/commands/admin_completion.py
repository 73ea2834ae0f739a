"""`wattpack admin completion`: print the completion script of a shell, or answer such a script.

The scripts ask this command for what can follow the words so far, so that they never are out of date.
"""

import argparse
from collections.abc import Iterator, Sequence

from wattpack.commands import COMMANDS, find_command
from wattpack.config.arguments import add
from wire.errors import UserError

_BASH = """\
_wattpack() {
    COMPREPLY=($(wattpack admin completion bash "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _wattpack wattpack"""
_ZSH = """\
#compdef wattpack
_wattpack() {
    local -a found
    found=("${(@f)$(wattpack admin completion zsh "${words[@]:1:$((CURRENT - 1))}" 2>/dev/null)}")
    if [[ -n "$found" ]]; then _describe wattpack found; else _files; fi
}
compdef _wattpack wattpack"""
_FISH = """\
function __wattpack
    set -l word (commandline -ct)
    set -l found (wattpack admin completion fish (commandline -opc)[2..-1] "$word" 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path "$word"
    end
end
complete -c wattpack -e
complete -c wattpack -f -a '(__wattpack)'"""
_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
_SEPARATORS = {"zsh": ":", "fish": "\t"}
_HOW = (
    "bash: source <(wattpack admin completion bash); zsh: source <(wattpack admin completion zsh), after"
    " compinit; fish: wattpack admin completion fish | source"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "|".join(_SCRIPTS), _HOW, dest="shell")
    following = "the words after 'wattpack' so far: print what the last one can be"
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="WORD", help=following)


def run(arguments: argparse.Namespace) -> int:
    if not arguments.words:
        print(_SCRIPTS[arguments.shell])
        return 0
    *before, last = arguments.words
    separator = _SEPARATORS.get(arguments.shell)
    for word, meaning in complete(before):
        if word.startswith(last):
            print(word if separator is None else f"{word}{separator}{meaning}")
    return 0


def complete(before: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The words that can follow these, with their meanings; none where a file or any text can."""
    if not before:
        yield from ((each.name, each.summary) for group in COMMANDS.values() for each in group)
        return
    try:
        command, rest = find_command(before)
    except UserError:
        return
    actions = command.parser()._actions  # noqa: SLF001 - argparse offers no other list
    for action in actions:
        if rest and rest[-1] in action.option_strings and action.nargs != 0:
            yield from ((str(choice), "") for choice in action.choices or ())
            return
    if not rest:
        yield from ((each.name.rpartition(" ")[2], each.summary) for each in command.parts)
    for action in actions:
        yield from ((str(choice), "") for choice in (not action.option_strings and action.choices) or ())
        meaning = (action.help or "") % vars(action)
        yield from ((flag, meaning) for flag in action.option_strings if flag.startswith("--"))
