"""The benchmarks' command: list them, run one or all, and compare one with another checkout."""

import argparse
import contextlib
import difflib
import importlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn, cast

from bench.catalogue import BENCHMARKS, Benchmark
from bench.common.progress import Progress
from bench.common.requirements import Need, check
from bench.common.results import Result
from bench.comparison import compare, run_checkout
from wattpack.output.text import count_text
from wire.errors import UserError

OK, BOUND_MISSED, NOT_RUN, INTERRUPTED = 0, 1, 2, 130


class _Parser(argparse.ArgumentParser):
    """Reports a mistake in one sentence, as everything here does, instead of printing its usage."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}: see {self.prog} --help")


def main(
    arguments: Sequence[str],
    benchmarks: Mapping[str, tuple[str, str]] = BENCHMARKS,
    progress: Progress | None = None,
) -> int:
    """Run the command with these arguments; returns the exit status."""
    try:
        if not arguments or arguments[0] in {"-h", "--help"}:
            _list(benchmarks)
            return OK
        name, *options = arguments
        progress = progress or Progress()
        output, options = _output_options().parse_known_args(
            options, argparse.Namespace(json=False, compare=None)
        )
        run = _run_all if name == "all" else _run_one
        report, status = run(name, options, output.compare, benchmarks, progress)
    except UserError as error:
        print(f"bench: {error}", file=sys.stderr)
        return NOT_RUN
    except KeyboardInterrupt:
        print("bench: interrupted", file=sys.stderr)
        return INTERRUPTED
    # People read the table on stderr; JSON is for programs.
    if output.json or not sys.stdout.isatty():
        print(json.dumps(report))
    return status


def _output_options() -> argparse.ArgumentParser:
    """The options of every benchmark."""
    options = _Parser(prog="./dev bench", add_help=False, allow_abbrev=False)
    options.add_argument(
        "--json",
        action="store_true",
        default=argparse.SUPPRESS,
        help="print the result as JSON on stdout, also on a terminal; elsewhere it is always printed",
    )
    options.add_argument(
        "--compare",
        type=Path,
        metavar="DIR",
        default=argparse.SUPPRESS,
        help="first run the same benchmark in another checkout, with its own ./dev, and print both values",
    )
    return options


def _list(benchmarks: Mapping[str, tuple[str, str]]) -> None:
    width = max(map(len, [*benchmarks, "all"]))
    for name, (_, summary) in benchmarks.items():
        print(f"{name:<{width}}  {summary}")
    print(f"{'all':<{width}}  all of these, with their default options")
    print("\nEvery benchmark takes --json and --compare DIR: see ./dev bench NAME --help")


def _run_one(
    name: str,
    options: Sequence[str],
    checkout: Path | None,
    benchmarks: Mapping[str, tuple[str, str]],
    progress: Progress,
) -> tuple[dict[str, object], int]:
    benchmark, parsed = _prepare(name, options, benchmarks)
    other = None
    if checkout is not None:
        progress.say(f"{name}: in {checkout}")
        other = run_checkout(checkout, name, options)
    result = _run(name, benchmark, parsed, benchmarks[name][1], progress)
    report: dict[str, object] = {"benchmark": name, **result.as_json()}
    if other is not None:
        comparison = compare(other, result.figures)
        progress.say("\n".join(comparison.table()))
        report["compared_with"] = {"checkout": str(checkout), "figures": comparison.as_json()}
    return report, OK if result.ok else BOUND_MISSED


def _run_all(
    _: str,
    options: Sequence[str],
    checkout: Path | None,
    benchmarks: Mapping[str, tuple[str, str]],
    progress: Progress,
) -> tuple[dict[str, object], int]:
    if options:
        raise UserError(
            f"all takes no options: leave out {' '.join(options)}, or run one benchmark with them"
        )
    if checkout is not None:
        raise UserError("--compare is for one benchmark: name it instead of all")
    report: dict[str, dict[str, object]] = {}
    status = OK
    for name, (_module, summary) in benchmarks.items():
        try:
            benchmark, parsed = _prepare(name, (), benchmarks)
            result = _run(name, benchmark, parsed, summary, progress)
        except UserError as error:
            progress.say(f"{name}: {error}")
            report[name] = {"not_run": str(error), "ok": False}
            status = NOT_RUN
        else:
            report[name] = result.as_json()
            if not result.ok:
                status = max(status, BOUND_MISSED)
    return {"benchmarks": report, "ok": status == OK}, status


def _prepare(
    name: str, options: Sequence[str], benchmarks: Mapping[str, tuple[str, str]]
) -> tuple[Benchmark, argparse.Namespace]:
    """Import a benchmark's module and parse its options; raises `UserError`."""
    if name not in benchmarks:
        near = difflib.get_close_matches(name, [*benchmarks, "all"], n=1)
        advice = f"did you mean {near[0]}?" if near else "./dev bench lists all benchmarks"
        raise UserError(f"there is no benchmark {name!r}: {advice}")
    module, summary = benchmarks[name]
    # A module fulfils the protocol by its functions; type checkers cannot see through the late import.
    benchmark = cast("Benchmark", importlib.import_module(module))
    parser = _Parser(
        prog=f"./dev bench {name}",
        description=summary,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        parents=[_output_options()],
        # An abbreviated --compare would be accepted here, and have no effect.
        allow_abbrev=False,
    )
    benchmark.add_arguments(parser)
    return benchmark, parser.parse_args(options)


def _run(
    name: str, benchmark: Benchmark, options: argparse.Namespace, summary: str, progress: Progress
) -> Result:
    progress.say(f"{name}: {summary}")
    needs: Sequence[Need] = benchmark.needs(options) if hasattr(benchmark, "needs") else ()
    options.left_out = check(needs, lambda text: progress.say(f"{name}: {text}"))
    # Stdout is for the result alone.
    with contextlib.redirect_stdout(sys.stderr):
        result = replace(benchmark.run(options, progress), left_out=options.left_out)
    progress.say("\n".join(result.table()))
    missed = count_text(sum(not figure.ok for figure in result.figures), "bound")
    progress.say(f"{name}: {'all bounds kept' if result.ok else f'{missed} missed'}")
    return result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
