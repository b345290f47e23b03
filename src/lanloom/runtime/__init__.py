"""What every process stands on."""
