"""Results in words and in one HTML file. Knows results and plots, not the front ends."""
