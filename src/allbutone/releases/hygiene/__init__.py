"""Whether a release holds only what may be released."""
