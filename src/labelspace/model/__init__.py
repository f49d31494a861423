"""What users keep: the Tagger, how it is trained, saved and evaluated."""
