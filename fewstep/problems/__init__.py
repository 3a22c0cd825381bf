"""Kinds of problems: what a task is, how a user's data become tasks, and how answers are written and drawn."""
