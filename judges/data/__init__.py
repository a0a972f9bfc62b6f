"""Reads rows of any file and their fields, and writes files atomically."""
