"""Policies that keep promises."""

from collector.features.promises.qos.policy import PRIORITY, QOS_DRIVEN

POLICIES = (PRIORITY, QOS_DRIVEN)
