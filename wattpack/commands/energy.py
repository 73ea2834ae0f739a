"""`wattpack energy`: energy over a period by node, container, service, label or day."""

import argparse
import time
from collections.abc import Callable
from datetime import UTC, datetime

from wattpack.client.collector import Collector, Json, add_list_options, more_lines, query_collector
from wattpack.config.arguments import add
from wattpack.output.text import Columns, at, columns_table, energy_text, print_result, time_text
from wire.errors import UserError

_BY = ("node", "container", "service", "day")
_LABEL = "label:"
_DAY_SECONDS = 86_400.0
_MAX_DAYS = 36_500
_JOULES_PER_KWH = 3.6e6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "--by node|container|service|day|label:KEY", "how to group", default="node")
    add(parser, "--days N", "the last N days", float, default=1.0)
    add(parser, "--start TIME", "start of the period, such as 2026-05-01 or 2026-05-01T12:00 (UTC)")
    add(parser, "--end TIME", "end of the period (default: now)")
    add(parser, "--csv", "print all accounts as CSV")
    add_list_options(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.by not in _BY and not arguments.by.startswith(_LABEL):
        raise UserError(f"--by {arguments.by}: use {', '.join(_BY)} or {_LABEL}KEY")
    end = time.time() if arguments.end is None else _time("--end", arguments.end)
    if not 0 < arguments.days <= _MAX_DAYS:
        raise UserError(f"--days {arguments.days:g}: use a number above 0 and up to {_MAX_DAYS}")
    start = (
        end - arguments.days * _DAY_SECONDS if arguments.start is None else _time("--start", arguments.start)
    )
    if start >= end:
        raise UserError(
            f"--start {time_text(start)} is not before the end of the period, {time_text(end)} UTC: give an"
            " earlier --start or a later --end"
        )
    given = {"by": arguments.by, "start": repr(max(0.0, start)), "end": repr(end)}
    if arguments.csv:
        text = query_collector(
            arguments, lambda collector: collector.get_text("/v1/energy", format="csv", **given)
        )
        print("\n".join(text.splitlines()))
        return 0

    async def fetch(collector: Collector) -> tuple[Json, list[Json]]:
        tariff = await collector.get("/v1/energy", limit="1", **given)
        return tariff, await collector.get_all("/v1/energy", key="accounts", **given)

    tariff, found = query_collector(arguments, fetch)
    shown = found[: arguments.limit]
    period = f"{time_text(start)} to {time_text(end)} UTC"
    if shown:
        lines = [*columns_table(_columns(arguments.by, tariff), shown), *more_lines(found, shown)]
        lines.append(f"From {period}, whole machines at the wall.")
        if problem := tariff.get("tariff_problem"):
            lines.append(f"Price and CO2 are incomplete: {problem}")
    else:
        every = "Agents report energy with each heartbeat, every five minutes by default."
        lines = [f"No data from {period}. {every}"]
    return print_result(arguments, [each | _costs(each, tariff) for each in shown], lines)


def _costs(account: Json, tariff: Json) -> Json:
    """Price and emissions of an account, as far as they are known."""
    kwh = account["joules"] / _JOULES_PER_KWH
    return {
        name: kwh * tariff[rate]
        for name, rate in (("price", "price_per_kwh"), ("co2_grams", "co2_grams_per_kwh"))
        if tariff.get(rate) is not None
    }


def _time(option: str, text: str) -> float:
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise UserError(f"{option} {text}: use a time such as 2026-05-01 or 2026-05-01T12:00") from None
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()


def _grams(grams: float) -> str:
    return f"{grams / 1000:.2f} kg" if grams >= 1000 else f"{grams:.1f} g"  # noqa: PLR2004 - grams of a kilogram


def _columns(by: str, tariff: Json) -> Columns:
    """The columns of a grouping; costs as far as they are known."""
    key = by.removeprefix(_LABEL).upper()
    if key in {"ENERGY", "PRICE", "CO2"}:  # a label that is named as a column
        key = f"LABEL {key}"
    columns: dict[str, Callable[[Json], str]] = {
        key: lambda each: "(none)" if each["key"] is None else each["key"]
    }
    if by == "container":
        columns = {
            key: lambda each: each["name"] or each["key"],
            "NODE": at("node"),
            "SERVICE": at("service"),
        }
    columns["ENERGY"] = at("joules", energy_text)
    if by in {"node", "day"}:
        for part in ("idle", "system", "containers"):
            columns[part.upper()] = at(f"{part}_joules", energy_text)
    if tariff.get("price_per_kwh") is not None:
        price = f"PRICE {tariff.get('currency') or ''}".strip()
        columns[price] = lambda each: f"{_costs(each, tariff)['price']:.2f}"
    if tariff.get("co2_grams_per_kwh") is not None:
        columns["CO2"] = lambda each: _grams(_costs(each, tariff)["co2_grams"])
    return columns
