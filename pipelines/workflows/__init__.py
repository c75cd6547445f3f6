"""What assets, nights and the command line do, as functions."""
