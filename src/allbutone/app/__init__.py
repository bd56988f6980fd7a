"""The web app: forms in, answers out; the address of a page is its whole state."""
