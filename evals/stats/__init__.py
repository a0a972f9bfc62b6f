"""What figures say and how sure they are: bootstrap intervals, rank correlation, calibration."""
