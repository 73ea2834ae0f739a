"""What Prometheus and everything compatible with it answers: PromQL over HTTP."""

from dataclasses import dataclass

from tests.lab.serving import Server

Sample = tuple[dict[str, str], float]


@dataclass(frozen=True, slots=True)
class PromQLServer(Server):
    """A running server that can be queried."""

    def query(self, promql: str, *, at_unix_seconds: float | None = None) -> list[Sample]:
        """Every series that the expression gives at one instant, with its labels and its value."""
        parameters = {"query": promql}
        if at_unix_seconds is not None:
            parameters["time"] = str(at_unix_seconds)
        data = self.get_json("/api/v1/query", parameters)["data"]
        if data["resultType"] == "scalar":
            return [({}, float(data["result"][1]))]
        return [(series["metric"], float(series["value"][1])) for series in data["result"]]
