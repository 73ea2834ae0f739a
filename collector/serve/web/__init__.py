"""HTTP, independent of the cluster: middleware, auth, bodies, routes, OpenAPI, backpressure, event stream."""
