"""HTTP that agent and collector share: serving, TLS, credentials, Prometheus' web configuration file."""
