"""Private tools that do not depend on labels or methods."""
