"""Pictures of what a model knows of its labels: a map of its space, or its label tree as a page."""
