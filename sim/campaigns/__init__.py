"""Many simulations: windows, campaigns, sweeps, policy search."""
