"""What a command asks: what-if, parity, when, evaluate, inspect, campaigns, as functions."""
