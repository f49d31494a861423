"""Parts that several methods share: hold-out, calibration, blend, stacking."""
