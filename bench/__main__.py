"""The benchmarks' command: list them, run one, run all."""

import argparse
import contextlib
import difflib
import importlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NoReturn, cast

from bench.catalogue import BENCHMARKS, Benchmark
from bench.common.progress import Progress
from bench.common.requirements import Need, check
from bench.common.results import Result
from wire.errors import UserError

OK, BOUND_MISSED, NOT_RUN, INTERRUPTED = 0, 1, 2, 130


class _Parser(argparse.ArgumentParser):
    """Complains in one sentence, as everything here does, instead of printing its usage."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}: see {self.prog} --help")


def main(
    arguments: Sequence[str],
    benchmarks: Mapping[str, tuple[str, str]] = BENCHMARKS,
    progress: Progress | None = None,
) -> int:
    """Do what the arguments say; returns the exit status."""
    try:
        if not arguments or arguments[0] in {"-h", "--help"}:
            _list(benchmarks)
            return OK
        name, *options = arguments
        progress = progress or Progress()
        if name == "all":
            return _run_all(options, benchmarks, progress)
        result = _run(name, options, benchmarks, progress)
    except UserError as complaint:
        print(f"bench: {complaint}", file=sys.stderr)
        return NOT_RUN
    except KeyboardInterrupt:
        print("bench: interrupted", file=sys.stderr)
        return INTERRUPTED
    print(json.dumps({"benchmark": name, **result.as_json()}))
    return OK if result.ok else BOUND_MISSED


def _list(benchmarks: Mapping[str, tuple[str, str]]) -> None:
    width = max(map(len, [*benchmarks, "all"]))
    for name, (_, summary) in benchmarks.items():
        print(f"{name:<{width}}  {summary}")
    print(f"{'all':<{width}}  every one of these, with its default options")


def _run(
    name: str, options: Sequence[str], benchmarks: Mapping[str, tuple[str, str]], progress: Progress
) -> Result:
    if name not in benchmarks:
        near = difflib.get_close_matches(name, [*benchmarks, "all"], n=1)
        advice = f"did you mean {near[0]}?" if near else "./dev bench lists those there are"
        raise UserError(f"there is no benchmark {name!r}: {advice}")
    module, summary = benchmarks[name]
    # A module fulfils the protocol by its functions; type checkers cannot see through the late import.
    benchmark = cast("Benchmark", importlib.import_module(module))
    parser = _Parser(
        prog=f"./dev bench {name}",
        description=summary,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    benchmark.add_arguments(parser)
    parsed = parser.parse_args(options)
    progress.say(f"{name}: {summary}")
    needs: Sequence[Need] = benchmark.needs(parsed) if hasattr(benchmark, "needs") else ()
    parsed.left_out = check(needs, lambda text: progress.say(f"{name}: {text}"))
    # Stdout is for the result alone.
    with contextlib.redirect_stdout(sys.stderr):
        result = replace(benchmark.run(parsed, progress), left_out=parsed.left_out)
    for figure in result.figures:
        if not figure.ok:
            progress.say(f"{name}: bound missed: {figure}")
    return result


def _run_all(options: Sequence[str], benchmarks: Mapping[str, tuple[str, str]], progress: Progress) -> int:
    if options:
        raise UserError(
            f"all takes no options: leave out {' '.join(options)}, or run one benchmark with them"
        )
    report: dict[str, dict[str, object]] = {}
    status = OK
    for name in benchmarks:
        try:
            result = _run(name, (), benchmarks, progress)
        except UserError as complaint:
            progress.say(f"{name}: {complaint}")
            report[name] = {"not_run": str(complaint), "ok": False}
            status = NOT_RUN
        else:
            report[name] = result.as_json()
            if not result.ok:
                status = max(status, BOUND_MISSED)
    print(json.dumps({"benchmarks": report, "ok": status == OK}))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
