"""HTTP server of models: an API of its own, Annif's API, and a page (`labelspace serve`)."""
