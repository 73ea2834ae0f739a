"""What is simulated: scenario, hosts, workload."""
