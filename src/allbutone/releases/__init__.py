"""What is drawn from a fitted model, written to a folder and read back. Knows the model, not the adversary."""
