"""What jobs run on, where one pool of processors does not say enough: clusters of nodes, with limits."""
