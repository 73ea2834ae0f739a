"""What agent and collector share: the protocol, and how both serve HTTP.

`messages` is the protocol between the two; `resources` and `sketch` are the values in it. `address`, `errors`
and `metrics` describe a listen address, an error and a metric; `http` serves them. Every other package may
import this one; it imports none of them.
"""
