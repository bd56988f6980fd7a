"""Any table becomes checked records, and files are written whole or not at all. Knows only `support`."""
