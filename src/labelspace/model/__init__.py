"""The Tagger: training, saving, prediction, evaluation, explanation and updates."""
