"""How good the predictions of simulated schedules were."""
