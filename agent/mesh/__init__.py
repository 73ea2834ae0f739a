"""Round-trip times to other nodes.

`prober` sends questions to the peers that the collector chose, `endpoint` is the UDP socket that answers
those of others, `exchange` sends the results to the collector and gets peers and keys from it.
"""
