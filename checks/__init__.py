"""What checks the project itself, and not what it does: the package, its versions, its licences, its tests."""
