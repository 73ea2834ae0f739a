"""The applications of a scenario: which containers of a workload belong to each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import numpy as np

from collector.common.arrays import Rows
from collector.common.labels import APP_LABEL, DELAY_MAX_LABEL
from replay.setup.scenario import Application
from replay.setup.workload import Workload
from wire.errors import UserError


@dataclass(frozen=True, eq=False)
class ApplicationMembers:
    """An application, and its containers as rows of a workload."""

    settings: Application
    members: Rows
    callers: Rows
    servers: Rows


def find_members(workload: Workload, settings: Application) -> ApplicationMembers:
    """Find the containers of an application; raises `UserError` if a pattern matches none."""
    members = _matching(workload, settings.services)
    found = ApplicationMembers(
        settings,
        members,
        np.intersect1d(members, _matching(workload, settings.callers)),
        np.intersect1d(members, _matching(workload, settings.servers)),
    )
    for key, rows in (("services", found.members), ("callers", found.callers), ("servers", found.servers)):
        if not rows.size:
            raise UserError(
                f"{key} of application {settings.name} match no service of the trace: check the patterns"
            )
    return found


def _matching(workload: Workload, patterns: Sequence[str]) -> Rows:
    names = {name: any(fnmatchcase(name, each) for each in patterns) for name in set(workload.services)}
    return np.flatnonzero([names[name] for name in workload.services])


def application_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels of a container that name its application."""
    return {key: value for key, value in labels.items() if key in {APP_LABEL, DELAY_MAX_LABEL}}


def with_applications(workload: Workload, applications: Sequence[ApplicationMembers]) -> Workload:
    """Add labels that name the application of each container, as users set them."""
    if not applications:
        return workload
    if workload.promised is not None:
        raise UserError(
            "a workload with promises of availability has no applications: remove [[applications]]"
        )
    labels = [dict(each) for each in workload.labels] or [{} for _ in workload.ids]
    for each in applications:
        own = {APP_LABEL: each.settings.name}
        if each.settings.delay_max_ms is not None:
            own[DELAY_MAX_LABEL] = f"{each.settings.delay_max_ms:f}ms"
        for row in each.members.tolist():
            if APP_LABEL in labels[row]:
                raise UserError(
                    f"service {workload.services[row]} belongs to two applications: "
                    f"{labels[row][APP_LABEL]} and {each.settings.name}"
                )
            labels[row] |= own
    return replace(workload, labels=tuple(labels))
