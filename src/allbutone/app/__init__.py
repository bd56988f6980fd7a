"""The web app: pages, jobs, sessions; no numerics. Knows everything below it but the command line."""
