"""What a collector does to a real Swarm of three nodes: one scenario per file, each a function that measures.

In: a `Cluster`, which is the Swarm with a real agent per node, and a way to start collectors. Out: figures
with their bounds. The lab's tests run the short ones.
"""
