"""Judges inputs that outgrow one file: in units, each with an output file of its own, by any number of processes and machines."""
