"""What every layer may use: errors, units, files."""
