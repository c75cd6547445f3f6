"""Quality of the predictions of simulated schedules."""
