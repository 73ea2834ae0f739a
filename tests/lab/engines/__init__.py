"""Docker engines, and a Swarm of them."""
