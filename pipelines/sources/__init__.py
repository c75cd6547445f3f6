"""What a site names: catalogue, remembered traces, monitored systems, downloads."""
