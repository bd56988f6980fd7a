"""Simulation designs, their cells and their runs. Knows everything that computes, nothing that draws."""
