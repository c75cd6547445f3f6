"""Sources named by a site: catalogue, remembered traces, monitored systems, downloads."""
