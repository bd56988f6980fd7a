"""The posterior of a missing record: built, maximised, integrated. Knows releases, not what is risky."""
