"""The specification, as tests: each folder mirrors the package of its name; `repo` holds what is true of the whole."""
