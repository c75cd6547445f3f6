"""The compiled event loop and its parts: arrays in, arrays out."""
