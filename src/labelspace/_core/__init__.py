"""Private tools without knowledge of labels or methods."""
