"""The agent's cost on its host, compared with other monitors, and the accuracy and traffic of its reports."""
