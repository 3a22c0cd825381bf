"""Requests that arrive together, done in one compiled call: queues and turns, programs by size, packing and padding."""
