"""The work of assets, nights and commands, as functions."""
