"""ge-kube: applications placed as a whole, near each other, on few nodes that have their images."""
