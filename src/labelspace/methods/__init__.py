"""The methods, one file each; `registry` knows them by name."""

DEFAULT_METHOD = "fusion"  # here, where reading it imports nothing
