"""The routes of the mesh and of applications."""

from collector.features.network.applications import hints, running
from collector.features.network.mesh import exchange, round_trips
from collector.serve.web.routes import Route

ROUTES: tuple[Route, ...] = (*exchange.ROUTES, *round_trips.ROUTES, *running.ROUTES, *hints.ROUTES)
