"""A simulated cluster under the event loop: nodes on a fat tree, applications that slow each other down, and counters of what happens in it."""
