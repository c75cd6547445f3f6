"""The MLflow side: candidates, packing, versions, aliases, promotion."""
