"""Replicas and limits of elastic services, compared with other autoscalers."""
