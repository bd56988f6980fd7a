"""What was ever released of a table: recorded beside it, and judged together."""
