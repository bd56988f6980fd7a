"""The command line: what can be asked, how it is answered; no numerics. Knows everything below it."""
