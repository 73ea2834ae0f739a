"""Round-trip times to other nodes.

`prober` sends probe requests to the peers that the collector chose, `responder` replies to those of peers,
`endpoint` is the UDP socket of both. `exchange` sends the results to the collector, and receives peers and
keys from it.
"""
