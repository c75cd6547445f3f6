"""Search for mixed policies: directions of weights, landscapes, optimisers."""
