"""The label by which a user gives leave to move what would else stay, or forbids it."""

MOVE, ALLOWED, NEVER = "wattpack.move", "allowed", "never"
NO_LEAVE = f"and no label {MOVE}={ALLOWED}"
"""The end of a sentence about what may be moved only by leave."""
