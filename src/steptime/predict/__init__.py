"""Prediction: what a step takes on machines that one does not have, in closed form."""
