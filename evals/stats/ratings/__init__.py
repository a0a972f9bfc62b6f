"""Ratings of models from games between two: Elo over many orders, Bradley-Terry with intervals, and control for style."""
