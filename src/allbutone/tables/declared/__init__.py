"""What a table file declares of each column: scale, limits, decimals, prior. Knows `support` and files."""
