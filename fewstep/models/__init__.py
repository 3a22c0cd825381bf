"""Trained models as values."""
