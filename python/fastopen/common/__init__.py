"""Tools that every layer may use: errors, units, files."""
