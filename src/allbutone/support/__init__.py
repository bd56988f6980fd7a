"""What every floor may use: errors, arrays of any namespace, threads. Knows no tables, models or releases."""
