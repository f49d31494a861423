"""What several methods are finished with: hold-out, calibration, blend, stacking."""
