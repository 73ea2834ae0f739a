"""Panels and dashboards, and their JSON for Grafana."""

import json
from dataclasses import dataclass
from typing import Any, Final

_DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH, _HEIGHT = 24, 8
_SCHEMA_VERSION = 39


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL expression, and the legend of its series."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel."""

    title: str
    queries: tuple[Query, ...]
    unit: str = "short"
    kind: str = "timeseries"
    """timeseries, stat or table."""
    width: int = 12
    stacked: bool = False
    description: str = ""

    def to_json(self, number: int, x: int, y: int) -> dict[str, Any]:
        """The panel at a position of the grid."""
        custom = {"stacking": {"mode": "normal"}, "fillOpacity": 40} if self.stacked else {}
        is_instant = self.kind == "table"
        return {
            "id": number,
            "title": self.title,
            "description": self.description,
            "type": self.kind,
            "datasource": _DATASOURCE,
            "gridPos": {"x": x, "y": y, "w": self.width, "h": _HEIGHT},
            "fieldConfig": {"defaults": {"unit": self.unit, "custom": custom}, "overrides": []},
            "targets": [
                {
                    "refId": chr(ord("A") + index),
                    "datasource": _DATASOURCE,
                    "expr": query.expr,
                    "legendFormat": query.legend or "__auto",
                    **({"instant": True, "format": "table"} if is_instant else {}),
                }
                for index, query in enumerate(self.queries)
            ],
        }


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a dashboard: the values of a label, or a text that the user enters."""

    name: str
    label: str
    values_of: str = ""
    """A metric and its label, such as `metric, label`."""
    text: str = ""

    def to_json(self) -> dict[str, Any]:
        if not self.values_of:
            current = {"text": self.text, "value": self.text}
            return {
                "name": self.name,
                "label": self.label,
                "type": "textbox",
                "query": self.text,
                "current": current,
                "options": [current],
            }
        query = f"label_values({self.values_of})"
        return {
            "name": self.name,
            "label": self.label,
            "type": "query",
            "datasource": _DATASOURCE,
            "query": {"query": query, "refId": self.name},
            "definition": query,
            "includeAll": True,
            "allValue": ".+",
            "multi": True,
            "refresh": 2,
            "sort": 1,
            "current": {"text": ["All"], "value": ["$__all"]},
        }


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A dashboard: panels from left to right, top to bottom."""

    uid: str
    title: str
    panels: tuple[Panel, ...]
    variables: tuple[Variable, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The dashboard for Grafana's import, provisioning or API."""
        placed, x, y = [], 0, 0
        for number, panel in enumerate(self.panels, start=1):
            if x + panel.width > _WIDTH:
                x, y = 0, y + _HEIGHT
            placed.append(panel.to_json(number, x, y))
            x += panel.width
        datasource = {
            "name": "datasource",
            "label": "Data source",
            "type": "datasource",
            "query": "prometheus",
        }
        return {
            "uid": self.uid,
            "title": self.title,
            "tags": ["wattpack"],
            "schemaVersion": _SCHEMA_VERSION,
            "editable": True,
            "refresh": "30s",
            "time": {"from": "now-6h", "to": "now"},
            "templating": {"list": [datasource, *(each.to_json() for each in self.variables)]},
            "panels": placed,
        }


def dashboard_text(dashboard: Dashboard) -> str:
    """The JSON file of a dashboard."""
    return json.dumps(dashboard.to_json(), indent=2) + "\n"
