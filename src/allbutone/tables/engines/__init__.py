"""Tables that are not read into memory: files, databases, clusters. `LazyRecords` is all that is used above."""
