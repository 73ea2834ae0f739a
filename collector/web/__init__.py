"""HTTP without the cluster: middleware, auth, bodies, routes, OpenAPI, backpressure, event stream."""
