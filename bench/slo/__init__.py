"""Promises of availability: the ledger and the policies that keep them."""
