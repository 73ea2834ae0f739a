"""The input of a simulation: scenario, hosts, workload."""
