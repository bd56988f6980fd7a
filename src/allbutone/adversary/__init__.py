"""The posterior of a missing record: built and maximised. Knows releases, not what is risky."""
