"""Compare fastopen's page loads with recordings, and with each other across engines, clients and networks."""
