"""Releases with a guarantee: noise on the moments, a posterior that knows of it, and any number of datasets."""
