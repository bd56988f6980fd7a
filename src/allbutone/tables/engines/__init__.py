"""Tables that stay where they are: files beyond memory, databases, clusters; only sums come back."""
