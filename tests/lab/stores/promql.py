"""The HTTP API of Prometheus and compatible stores: PromQL."""

from dataclasses import dataclass

from tests.lab.serving import Server

Sample = tuple[dict[str, str], float]


@dataclass(frozen=True, slots=True)
class PromQLServer(Server):
    """A running store that can be queried."""

    def query(self, promql: str, *, at_unix_seconds: float | None = None) -> list[Sample]:
        """Evaluate an expression at one instant; returns every series with its labels and value."""
        parameters = {"query": promql}
        if at_unix_seconds is not None:
            parameters["time"] = str(at_unix_seconds)
        data = self.get_json("/api/v1/query", parameters)["data"]
        if data["resultType"] == "scalar":
            return [({}, float(data["result"][1]))]
        return [(series["metric"], float(series["value"][1])) for series in data["result"]]
