"""Maps of a model's labels: its label space as a page or picture, or its label tree as a page."""
