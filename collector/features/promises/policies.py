"""Policies that keep promises."""

from collector.features.promises.qos.policy import QOS_DRIVEN

POLICIES = (QOS_DRIVEN,)
